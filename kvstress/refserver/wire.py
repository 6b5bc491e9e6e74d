"""What goes over the wire in both directions: JSON in, JSON and server-sent events out, OpenAI-shaped errors."""

from __future__ import annotations

from typing import Any

import msgspec

_encoder = msgspec.json.Encoder()
_MAX_QUOTED = 200


class BadRequest(Exception):  # noqa: N818 - the name is HTTP's
    """The client asked for what cannot be done: `message` for people, `param` the field at fault, `status` 4xx."""

    def __init__(self, message: str, param: str | None = None, status: int = 400) -> None:
        super().__init__(message)
        self.message = message
        self.param = param
        self.status = status


_TYPES = {400: "BadRequestError", 404: "NotFoundError", 405: "MethodNotAllowedError", 413: "RequestTooLargeError"}


def error_body(message: str, status: int, param: str | None = None, code: str | int | None = None) -> dict[str, Any]:
    """The error object every OpenAI client reads."""
    kind = _TYPES.get(status, "InternalServerError" if status >= 500 else "BadRequestError")
    return {"error": {"message": message, "type": kind, "param": param, "code": status if code is None else code}}


def to_json(payload: Any) -> bytes:
    """Compact JSON."""
    return _encoder.encode(payload)


def compact_json(payload: Any) -> str:
    """Compact JSON as text."""
    return _encoder.encode(payload).decode()


def sse(payload: Any) -> bytes:
    """One server-sent event with JSON data."""
    return b"data: " + _encoder.encode(payload) + b"\n\n"


SSE_DONE = b"data: [DONE]\n\n"


def parse_object(body: bytes) -> dict[str, Any]:
    """The JSON object in `body`. Raises BadRequest."""
    try:
        found = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadRequest(f"the body is not JSON: {str(error)[:_MAX_QUOTED]}") from None
    if not isinstance(found, dict):
        raise BadRequest("the body must be a JSON object")
    return found


def number(body: dict[str, Any], name: str, default: float, low: float, high: float) -> float:
    """A number in [low, high], `default` when absent or null. Raises BadRequest."""
    value = body.get(name)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
        raise BadRequest(f"{name} must be a number from {low:g} to {high:g}, got {_quote(value)}", name)
    return float(value)


def integer(body: dict[str, Any], name: str, default: int, low: int, high: int) -> int:
    """An integer in [low, high], `default` when absent or null. Raises BadRequest."""
    value = body.get(name)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int):
        raise BadRequest(f"{name} must be an integer, got {_quote(value)}", name)
    if value < low:
        raise BadRequest(f"{name} must be at least {low}, got {value}", name)
    if value > high:
        raise BadRequest(f"{name} must be at most {high}, got {value}", name)
    return value


def flag(body: dict[str, Any], name: str) -> bool:
    """A boolean, False when absent or null. Raises BadRequest."""
    value = body.get(name)
    if value is not None and not isinstance(value, bool):
        raise BadRequest(f"{name} must be true or false, got {_quote(value)}", name)
    return bool(value)


def text(body: dict[str, Any], name: str, default: str) -> str:
    """A string, `default` when absent or null. Raises BadRequest."""
    value = body.get(name)
    if value is not None and not isinstance(value, str):
        raise BadRequest(f"{name} must be a string, got {_quote(value)}", name)
    return default if value is None else value


def _quote(value: Any) -> str:
    quoted = compact_json(value)
    return quoted if len(quoted) <= _MAX_QUOTED else quoted[:_MAX_QUOTED] + "…"
