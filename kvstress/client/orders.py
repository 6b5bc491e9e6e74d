"""What a run and the processes that carry its requests say to one another.

Pickled, because an exchange may hold what no JSON can (NaN, half a surrogate pair) and both ends are the same program,
joined by a socket pair that nobody else can open.
"""

import asyncio
import pickle
from dataclasses import dataclass
from typing import Any

from kvstress.core.exchange import Exchange

_LENGTH_BYTES = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """`wire`: what `Wire` takes, but for its clock, which is `time.perf_counter() - origin`: one for all processes.

    The process looks at itself every `tick` seconds and tells when it came back more than `lag` seconds late.
    """

    wire: dict[str, Any]
    origin: float
    tick: float
    lag: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """Send one request: `asked` is what `Wire.send` takes. `number` names it in the answer."""

    number: int
    asked: dict[str, Any]
    done_due: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Cancel:
    """Nobody waits for order `number` any more: close its connection."""

    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """What came of order `number`."""

    number: int
    exchange: Exchange


@dataclass(frozen=True, slots=True, kw_only=True)
class Late:
    """The process stood still for `seconds` before `at`."""

    at: float
    seconds: float


def framed(message: object) -> bytes:
    """`message` as it crosses the socket pair."""
    data = pickle.dumps(message, protocol=pickle.HIGHEST_PROTOCOL)
    return len(data).to_bytes(_LENGTH_BYTES, "big") + data


async def received(reader: asyncio.StreamReader) -> Any:
    """The next message; None when the other end is gone."""
    try:
        length = int.from_bytes(await reader.readexactly(_LENGTH_BYTES), "big")
        return pickle.loads(await reader.readexactly(length))
    except (asyncio.IncompleteReadError, ConnectionError):
        return None
