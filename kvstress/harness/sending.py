"""What carries a run's requests: the run's own process, or several that do nothing else.

With more than one, the driver, the judge and the record stay here; only connections, streams and their decoding
move. Each process has the run's clock and tells its own lag, so that a timing finding knows of it.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from kvstress.client.wire import Wire
from kvstress.client.workers import working
from kvstress.core.events import Event, Lagged
from kvstress.harness.options import RunOptions
from kvstress.harness.recording import LAG, LAG_TICK, Send
from kvstress.harness.target import Clock, wire_settings


@asynccontextmanager
async def sending(
    url: str, options: RunOptions, wire: Wire, clock: Clock, emit: Callable[[Event], None]
) -> AsyncIterator[Send]:
    """What carries the run's requests: `wire` itself, or with `--workers` several processes that each have one."""
    if options.workers == 1:
        yield wire.send
        return

    def late(at: float, seconds: float) -> None:
        emit(Lagged(at=at, seconds=seconds))

    async with working(
        options.workers,
        wire_settings(url, options),
        clock=clock,
        done_due=lambda: wire.done_due,
        tick=LAG_TICK,
        lag=LAG,
        late=late,
    ) as workers:
        yield workers.send
