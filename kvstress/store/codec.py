"""One event, one JSON line, with nothing lost on the way back.

JSON has no word for NaN or infinity, and both are things that a failing server says (in a
metrics page, in a log-probability). A plain encoder turns them into null, which here means
"not observed": so they are spelt as the strings "NaN", "Infinity" and "-Infinity". Finite
floats keep every bit. Fields that this version does not know are skipped.
"""

import math
from collections.abc import Iterator
from typing import Any, cast

import msgspec

from kvstress.core.events import Event, Lagged, PageRead, RequestSent, RunEnded, ServerEvent, StepEnded, StepStarted
from kvstress.core.exchange import Exchange
from kvstress.core.sample import Sample
from kvstress.store.cells import CANONICAL, printable

TYPES: dict[str, type[Event]] = {
    "request-sent": RequestSent,
    "exchange": Exchange,
    "sample": Sample,
    "step-started": StepStarted,
    "step-ended": StepEnded,
    "server-event": ServerEvent,
    "page-read": PageRead,
    "lagged": Lagged,
    "run-ended": RunEnded,
}


class _Tag(msgspec.Struct):
    type: str


_ENCODER = msgspec.json.Encoder()
_TAG = msgspec.json.Decoder(_Tag)
_HEADS = {kind: f'{{"type":"{name}",'.encode() for name, kind in TYPES.items()}
# Not strict, because only then is the string "NaN" accepted where a float belongs.
_DECODERS: dict[str, msgspec.json.Decoder[Event]] = {
    name: cast("msgspec.json.Decoder[Event]", msgspec.json.Decoder(kind, strict=False)) for name, kind in TYPES.items()
}
_BY_HEAD = {_HEADS[kind]: _DECODERS[name].decode for name, kind in TYPES.items()}


def encode(event: Event) -> bytes:
    """`event` as one line of `events.jsonl`, its newline included."""
    return settle(event)[0]


def settle(event: Event) -> tuple[bytes, Event]:
    """The line for `event`, and the event as every later reader will see it.

    The two differ only where text holds half a surrogate pair (a server may send one, UTF-8
    cannot hold it): it becomes a question mark. Judging the second keeps live and stored
    judgements the same.
    """
    if math.isfinite(_sum_of_floats(event)):
        try:
            return _line(type(event), event), event
        except UnicodeEncodeError:
            pass
    line = _line(type(event), spelt(msgspec.to_builtins(event)))
    return line, decode(line)


def decode(line: bytes) -> Event:
    """The event on `line`. Raises ValueError with a short reason when there is none."""
    try:
        # Where the type comes first, as it does in lines of ours, it need not be looked for in all the rest.
        known = _BY_HEAD.get(head(line))
        if known is not None:
            return known(line)
        name = _TAG.decode(line).type
        if name in _DECODERS:
            return _DECODERS[name].decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as problem:
        raise ValueError(str(problem)) from problem
    raise ValueError(f"unknown event type {printable(name)[:40]!r}, perhaps of a newer kvstress")


def head(line: bytes) -> bytes:
    """What a line of ours tells its event's type by."""
    return line[: line.find(b",") + 1]


def heads_but(kinds: tuple[type[Event], ...]) -> frozenset[bytes]:
    """The heads of the lines of all types but `kinds`."""
    return frozenset(known for kind, known in _HEADS.items() if kind not in kinds)


def spelt(value: Any) -> Any:
    """JSON values with non-finite floats spelt out and text that UTF-8 cannot hold replaced."""
    match value:
        case float():
            return value if math.isfinite(value) else _spelling(value)
        case str():
            return value.encode("utf-8", "replace").decode()
        case dict():
            return {spelt(key): spelt(item) for key, item in value.items()}
        case list() | tuple():
            return [spelt(item) for item in value]
        case _:
            return value


def _spelling(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"


def _line(kind: type[Event], body: Any) -> bytes:
    return _HEADS[kind] + _ENCODER.encode(body)[1:] + b"\n"


def _sum_of_floats(event: Event) -> float:
    """Finite only if every float in `event` is: one C-speed sum instead of a test for each of 10,000 chunk times."""
    match event:
        case Exchange():
            times = event.due + event.sent + event.ended + (event.headers_at or 0.0)
            return times + sum(event.chunk_at) + sum(_logprobs(event))
        case Sample():
            known: list[float | None] = [event.took, *(getattr(event, name) for name in CANONICAL)]
            return event.at + sum(value for value in known if value is not None) + sum(event.raw.values())
        case StepEnded() | Lagged():
            return event.at + event.seconds
        case PageRead():
            return event.at + (event.took or 0.0)
        case _:
            return event.at


def _logprobs(exchange: Exchange) -> Iterator[float]:
    for choice in exchange.choices:
        for token in choice.logprobs or ():
            yield token.logprob or 0.0
            yield from (logprob or 0.0 for _, logprob in token.top)
