"""What command-line tests share: kvstress as a process, and servers to point it at."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

KVSTRESS = Path(sys.executable).with_name("kvstress")


def kvstress(
    *words: str | Path, cwd: Path, env: Mapping[str, str] | None = None, seconds: float = 110
) -> subprocess.CompletedProcess[str]:
    """Run kvstress to its end, which must come within `seconds`."""
    command = [str(KVSTRESS), *map(str, words)]
    return subprocess.run(
        command,
        cwd=cwd,
        env={**os.environ, **(env or {})},
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )


def verdict(run: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((run / "verdict.json").read_text())
    return found


def events(run: Path, kind: str) -> list[dict[str, Any]]:
    lines = (run / "events.jsonl").read_text().splitlines()
    return [event for event in map(json.loads, lines) if event["type"] == kind]


MODELS = json.dumps({"object": "list", "data": [{"id": "m", "max_model_len": 65536}]})
ANSWER = json.dumps(
    {
        "id": "c",
        "object": "chat.completion",
        "model": "m",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "ok"}, "finish_reason": "length"}],
        "usage": {"prompt_tokens": 10, "completion_tokens": 1, "total_tokens": 11},
    }
)
Page = tuple[int, str, str]


@contextmanager
def pages(replies: Mapping[str, Page]) -> Iterator[str]:
    """A server that gives each path its page (status, content type, text) and everything else a 404; yields its URL."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _answer(self) -> None:
            self.rfile.read(int(self.headers.get("content-length", 0)))
            status, kind, text = replies.get(self.path, (404, "application/json", '{"error":{"message":"no"}}'))
            body = text.encode()
            self.send_response(status)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = _answer  # noqa: N815

        def log_message(self, format: str, *args: object) -> None:
            """Quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join(10)
        server.server_close()


def healthy(**changed: Page) -> dict[str, Page]:
    """The pages of a server that works; `changed` replaces some by name: models, chat, metrics."""
    paths = {"models": "/v1/models", "chat": "/v1/chat/completions", "metrics": "/metrics"}
    replies: dict[str, Page] = {
        "/v1/models": (200, "application/json", MODELS),
        "/v1/chat/completions": (200, "application/json", ANSWER),
    }
    return replies | {paths[name]: page for name, page in changed.items()}
