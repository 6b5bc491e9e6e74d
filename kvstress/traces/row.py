"""What a row of any trace comes to, and what is noted while rows are read.

A format knows its own keys, units and history, and nothing else: it yields rows, and what a session's rows have in
common is worked out behind it (`turns.py`), so that two formats of one conversation give the same turns.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, BinaryIO, NoReturn

import ijson
import msgspec

from kvstress.core.errors import UsageError

# What a recorded request may ask for beside its messages; anything else of a body is noted and not sent.
ASKED = (
    "tools", "tool_choice", "temperature", "top_p", "stop", "n", "seed", "response_format", "presence_penalty",
    "frequency_penalty",
)  # fmt: skip
_CAPS = ("max_tokens", "max_completion_tokens")
_OURS = ("model", "stream", "stream_options", "user", "metadata")
# Unix times of this century: seconds are below it, milliseconds above.
_MILLISECONDS = 1e11


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One request. `at` is seconds on the trace's own clock, `think` seconds after the session's turn before.

    `messages` are all that were sent (`whole` True), only the new ones (False), or either (None: it is looked up).
    Where a trace has no text, `blocks` are the ids of its blocks of `block` tokens, meant within `scope`, and `tokens`
    the prompt's length.
    """

    number: int
    session: str | None = None
    messages: tuple[Mapping[str, Any], ...] = ()
    whole: bool | None = None
    blocks: tuple[int, ...] = ()
    block: int = 0
    scope: str = ""
    tokens: int | None = None
    max_tokens: int | None = None
    at: float | None = None
    think: float = 0.0
    asked: Mapping[str, Any] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class Notes:
    """What a person must know of an import. `name` is the file; `told` are facts such as units and block size.

    `unknown` counts keys that were read and mean nothing here, `left_out` rows that are no request, by reason.
    """

    name: str
    told: dict[str, str] = field(default_factory=dict)
    unknown: Counter[str] = field(default_factory=Counter)
    left_out: Counter[str] = field(default_factory=Counter)

    def keys(self, record: Mapping[str, Any], known: Iterable[str]) -> None:
        """Note what `record` has beside `known`."""
        self.unknown.update(key[:80] for key in record if key not in known)

    def refuse(self, number: int, why: str) -> NoReturn:
        """Raise UsageError for the row that begins at line (or stands at place) `number`."""
        raise UsageError(f"{self.name} line {number}: {why}")


def lines(file: BinaryIO, notes: Notes) -> Iterator[tuple[int, dict[str, Any]]]:
    """The objects of JSON lines with their line numbers, from 1. Raises UsageError at a line that is none."""
    for number, line in enumerate(file, start=1):
        if not line.strip():
            continue
        try:
            record = msgspec.json.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError) as problem:
            notes.refuse(number, f"not valid JSON ({problem})")
        if not isinstance(record, dict):
            notes.refuse(number, "expected a JSON object")
        yield number, record


def items(file: BinaryIO, prefix: str, notes: Notes) -> Iterator[Any]:
    """What stands at `prefix` of each JSON document in `file`. Raises UsageError where one ends early or is none.

    The parser's own message quotes the file, and there may be a key in what it quotes; so only the place is told.
    """
    try:
        yield from ijson.items(file, prefix, multiple_values=True, use_float=True)
    except ijson.JSONError as problem:
        what = "ends too early" if isinstance(problem, ijson.IncompleteJSONError) else "breaks off"
        raise UsageError(f"{notes.name}: not valid JSON ({what}, in what was read up to byte {file.tell()})") from None


def blocks(given: Any, number: int, notes: Notes) -> tuple[int, ...]:
    """A row's block ids, none where there are none. Raises UsageError when they are no whole numbers."""
    if given is None:
        return ()
    if not isinstance(given, list) or not all(isinstance(one, int) for one in given):
        notes.refuse(number, "hash_ids: expected a list of whole numbers")
    return tuple(given)


def messages(given: Any, number: int, notes: Notes) -> tuple[Mapping[str, Any], ...]:
    """A body's messages. Raises UsageError when there are none, or one has no role."""
    if not isinstance(given, list) or not given:
        notes.refuse(number, "no prompt: expected a list of messages")
    if not all(isinstance(one, dict) and isinstance(one.get("role"), str) for one in given):
        notes.refuse(number, "each message needs a role")
    return tuple(given)


def request(body: Any, number: int, notes: Notes) -> dict[str, Any]:
    """What a recorded request body (an object, or its JSON text) says, as fields of a Row."""
    if isinstance(body, str):
        try:
            body = json.loads(body)
        except ValueError:
            notes.refuse(number, "the request body is not JSON")
    if not isinstance(body, dict):
        notes.refuse(number, "no prompt: the request body is no JSON object")
    notes.keys(body, ("messages", "prompt", *ASKED, *_CAPS, *_OURS))
    prompt = body.get("prompt")
    if body.get("messages") is None and isinstance(prompt, str) and prompt:
        told: tuple[Mapping[str, Any], ...] = ({"role": "user", "content": prompt},)
    else:
        told = messages(body.get("messages"), number, notes)
    return {
        "messages": told,
        "whole": True,
        "max_tokens": count(next((body[key] for key in _CAPS if body.get(key)), None)),
        "asked": {key: body[key] for key in ASKED if body.get(key) is not None},
    }


def count(value: Any) -> int | None:
    """A whole number above 0, or None."""
    try:
        number = int(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if number > 0 else None


def seconds(value: Any, *, per: float = 1.0) -> float | None:
    """A time in seconds from a number of which `per` are a second, or from ISO 8601; None when it is neither."""
    if isinstance(value, str) and not value.replace(".", "", 1).lstrip("-").isdigit():
        try:
            return datetime.fromisoformat(value.replace("Z", "+00:00")).timestamp()
        except ValueError:
            return None
    try:
        return float(value) / per
    except (TypeError, ValueError, OverflowError):
        return None


def unix(value: Any) -> float | None:
    """A Unix time in seconds, from seconds, milliseconds, nanoseconds or ISO 8601."""
    time = seconds(value)
    while time is not None and time > _MILLISECONDS:
        time /= 1000.0
    return time
