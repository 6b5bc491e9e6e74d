"""A small server whose behaviour depends on its limit, for searches that must take no longer than a test may.

`limited.py PORT LIMIT [refuses-below N] [fails-below N] [mute] [late SECONDS] [flag FILE]`: exits with 3 below the
first, answers its third prompt and all later ones with a 500 below the second, listens without answering when mute,
takes its port late. With a flag file, a worker in a session of its own is started too, and the third prompt waits until
the file is there.
"""

import json
import os
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from pathlib import Path
from typing import Any

ANSWER = {
    "id": "c",
    "object": "chat.completion",
    "model": "m",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "ok"}, "finish_reason": "length"}],
}


def serve(port: int, limit: int, options: dict[str, str]) -> None:
    """Serve until killed."""
    if limit < int(options.get("refuses-below", 0)):
        print(f"no room for the pool in {limit}", flush=True)
        sys.exit(3)
    time.sleep(float(options.get("late", 0)))
    flag = options.get("flag")
    if flag:
        _worker()
    prompts = count()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            models = {"object": "list", "data": [{"id": "m"}]}
            found = self.path == "/v1/models" and "mute" not in options
            self._answer(200 if found else 404, models if found else {"error": {"message": "no such page"}})

        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
            words = len(str(asked["messages"]).split())
            # Sizing and readiness ask for one token; only prompts ask for more.
            number = next(prompts) if asked["max_tokens"] > 1 else -1
            if number >= 2 and flag:
                while not Path(flag).exists():
                    time.sleep(0.02)
            if number >= 2 and limit < int(options.get("fails-below", 0)):
                self._answer(500, {"error": {"message": "the pool is out of pages"}})
                return
            tokens = {"prompt_tokens": words, "completion_tokens": 1, "total_tokens": words + 1}
            self._answer(200, {**ANSWER, "usage": tokens})

        def _answer(self, status: int, body: Any) -> None:
            text = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, format: str, *args: object) -> None:
            """Quiet."""

    ThreadingHTTPServer(("127.0.0.1", port), Handler).serve_forever()


def _worker() -> None:
    if os.fork() == 0:
        os.setsid()
        time.sleep(600)
        os._exit(0)


if __name__ == "__main__":
    port, limit, *rest = sys.argv[1:]
    words = iter(rest)
    serve(int(port), int(limit), {word: "" if word == "mute" else next(words) for word in words})
