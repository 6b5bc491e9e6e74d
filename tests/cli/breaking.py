"""A small server with one planted failure, for shrinking in less time than a test may take.

`breaking.py PORT [OPTION VALUE …]`, of pool N, word W, extends 1, longer N, chance P, refuses-below N, starts FILE,
most N, turns 2, and the bare `fixed`, `other` and `refuses`. It answers 500 to a prompt that is sent a second time once
N words of distinct prompts came, to one that holds W or more than N words, or to one that goes on from an earlier one;
always, or with probability P (drawn from what was sent and the time). `fixed` never fails, `other` fails with other
words, `refuses` with 400; a pool below the last number exits.
FILE counts the starts: after N it starts no more, and with `turns` every second server says its failure in other words.
A POST to /reset forgets what was sent.
"""

import json
import random
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

ANSWER = {
    "id": "c",
    "object": "chat.completion",
    "model": "m",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "ok"}, "finish_reason": "length"}],
}


class Pool:
    """What was sent, and whether the next prompt breaks it."""

    def __init__(self, options: dict[str, str]) -> None:
        self.options = options
        self.seen: dict[str, int] = {}

    def breaks(self, prompt: str) -> bool:
        """Take in `prompt`; whether it fails."""
        again = prompt in self.seen
        extends = any(prompt.startswith(earlier[:-1]) for earlier in self.seen) and not again
        self.seen[prompt] = len(prompt.split())
        word = self.options.get("word")
        full = again and sum(self.seen.values()) >= int(self.options.get("pool", 0))
        long = len(prompt.split()) > int(self.options.get("longer", 1_000_000))
        other = extends if "extends" in self.options else long if "longer" in self.options else full
        fails = word in prompt if word else other
        return fails and "fixed" not in self.options and random.random() < float(self.options.get("chance", 1))


def started(options: dict[str, str]) -> int:
    """How many servers of this test were started before; ends this one when that is enough."""
    if "starts" not in options:
        return 0
    file = Path(options["starts"])
    count = int(file.read_text()) if file.exists() else 0
    file.write_text(str(count + 1))
    if count >= int(options.get("most", 1_000_000)):
        sys.exit(4)
    return count


def serve(port: int, options: dict[str, str]) -> None:
    """Serve until killed."""
    if int(options.get("pool", 0)) < int(options.get("refuses-below", 0)):
        print("the pool is too small", flush=True)
        sys.exit(3)
    count = started(options)
    pool = Pool(options)
    said = "something else broke" if "other" in options else "the page table is corrupt (request 123456789)"
    status, said = (503, "the worker is dead") if "turns" in options and count % 2 else (500, said)
    status = 400 if "refuses" in options else status

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            models = {"object": "list", "data": [{"id": "m", "max_model_len": 4000}]}
            self._answer(200 if self.path == "/v1/models" else 404, models)

        def do_POST(self) -> None:
            if self.path == "/reset":
                pool.seen.clear()
                self._answer(200, {})
                return
            asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
            prompt = json.dumps(asked.get("messages") or asked.get("prompt"))
            if "ready?" not in prompt and pool.breaks(prompt):
                self._answer(status, {"error": {"message": said}})
                return
            words = len(prompt.split())
            usage = {"prompt_tokens": words, "completion_tokens": 1, "total_tokens": words + 1}
            self._answer(200, {**ANSWER, "usage": usage})

        def _answer(self, status: int, body: Any) -> None:
            text = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, format: str, *args: object) -> None:
            """Quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    print(f"http://127.0.0.1:{server.server_port}", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    port, *rest = sys.argv[1:]
    words = iter(rest)
    serve(int(port), {word: "" if word in ("fixed", "other", "refuses") else next(words) for word in words})
