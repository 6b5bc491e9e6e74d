"""bodies.jsonl, only under `--record full`: what was sent, byte for byte.

A body is nearly always one line of JSON and then stands in its line as it is, readable; any other
bytes stand there in base64.
"""

import base64
from collections.abc import Iterator
from pathlib import Path

import msgspec

from kvstress.core.errors import CannotJudgeError
from kvstress.store import disk

FILE = "bodies.jsonl"


class _Body(msgspec.Struct, omit_defaults=True):
    request: str
    body: msgspec.Raw = msgspec.field(default_factory=msgspec.Raw)
    base64: str | None = None


_LINE = msgspec.json.Decoder(_Body)
_ANY = msgspec.json.Decoder(msgspec.Raw)


def line(request_id: str, body: bytes) -> bytes:
    """The line of bodies.jsonl for one request."""
    if _is_one_line_of_json(body):
        return msgspec.json.encode({"request": request_id, "body": msgspec.Raw(body)}) + b"\n"
    return msgspec.json.encode({"request": request_id, "base64": base64.b64encode(body).decode()}) + b"\n"


def read_bodies(run: Path) -> Iterator[tuple[str, bytes]]:
    """(request id, body) of every request of `run` in the order sent; nothing unless it was recorded in full."""
    path = run / FILE
    if not path.exists():
        return
    with disk.reading(path), path.open("rb") as file:
        for count, text in enumerate(file, 1):
            if text.endswith(b"\n"):
                yield _read(path, count, text)


def _read(path: Path, count: int, text: bytes) -> tuple[str, bytes]:
    try:
        found = _LINE.decode(text)
        body = bytes(found.body) if found.base64 is None else base64.b64decode(found.base64)
    except (msgspec.DecodeError, ValueError) as problem:
        raise CannotJudgeError(f"{path}, line {count} is not a request body ({problem}): restore the file") from problem
    return found.request, body


def _is_one_line_of_json(body: bytes) -> bool:
    try:
        _ANY.decode(body)
    except (msgspec.DecodeError, RecursionError):
        return False
    return b"\n" not in body and body.strip() == body
