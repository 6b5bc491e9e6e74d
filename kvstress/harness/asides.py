"""Asking beside the traffic: after the last step, is the server alive, at rest, whole, and still there after silence?

Asides are recorded like all else and judged by the same oracles, but have a deadline of their own: a dead server must
not hold the run for the deadline of a long prompt. Whoever waits for a release scrapes seldom, because real servers
notice a closed connection only between answers.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

import anyio

from kvstress.client.wire import Wire, encode
from kvstress.core.cold import at_twin
from kvstress.core.events import PageRead
from kvstress.core.exchange import Exchange
from kvstress.core.outcome import Kind, Outcome
from kvstress.core.plan import Request
from kvstress.core.sample import Sample
from kvstress.core.sizing import Sizing
from kvstress.harness.recording import Clock, Recorder, sent
from kvstress.harness.target import FirstLook
from kvstress.metrics.scrape import Scraper
from kvstress.oracles.health import PATH, ROUNDS
from kvstress.workload import asides
from kvstress.workload.format import Spec

_PATIENCE, _LEAST = 60.0, 5.0
_SCRAPE, _LEAST_SCRAPE = 2.0, 1.2
_GRACE, _LEAST_GRACE = 10.0, 3.0
_AFTER_GRACE = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Asking:
    """What asides need of a run. `time_scale` multiplies every wait; `twin`: this asks a second process."""

    wire: Wire
    recorder: Recorder
    scraper: Scraper
    clock: Clock
    time_scale: float
    twin: bool = False

    async def ask(self, request: Request, *, patience: float | None = None) -> Exchange:
        """Send one aside; past its deadline it is LOST, like any request that nobody answered."""
        body = encode(request.body)
        self.recorder.body(request.id, body)
        began = self.clock()
        named = replace(request, endpoint=at_twin(request.endpoint)) if self.twin else request
        self.recorder.emit(sent(named, body, bool(request.body.get("stream")), began))
        exchange = Exchange(request=request.id, due=began, sent=began, ended=began, kind=Kind.DEADLINE)
        with anyio.move_on_after(patience or max(_PATIENCE * self.time_scale, _LEAST)) as limit:
            exchange = await self.wire.send(
                request.id, request.endpoint, body, stream=bool(request.body.get("stream")), due=began
            )
        if limit.cancelled_caught:
            now = self.clock()
            exchange = Exchange(request=request.id, due=began, sent=began, ended=now, kind=Kind.DEADLINE)
        self.recorder.emit(exchange)
        return exchange

    async def reset(self, path: str) -> int | None:
        """Ask for the prefix cache to be emptied; the status."""
        return await self.page(path, method="POST")

    async def page(self, path: str, *, method: str = "GET") -> int | None:
        """Read a page other than the metrics and record what it said; its status."""
        began = self.clock()
        page = await self.wire.fetch(path, timeout=max(_PATIENCE * self.time_scale / 3, _LEAST), method=method)
        took = self.clock() - began
        self.recorder.emit(PageRead(at=began, path=path, status=page.status, problem=page.problem, took=took))
        return page.status

    async def scrape(self) -> Sample | None:
        """One sample, recorded; None when the server has no metrics page."""
        sample = await self.scraper.scrape("end", None)
        if sample:
            self.recorder.emit(sample)
        return sample


async def afterwards(
    asking: Asking, spec: Spec, look: FirstLook, seed: int, sizing: Sizing, compare: Callable[[], Awaitable[None]]
) -> None:
    """All that is asked once the last step has ended; most of it only of a server that has not failed yet.

    `compare` asks again, cold, what the traffic asked.
    """
    last = await _settled(asking)
    await _alive(asking, spec, look.model, first=0)
    if last is not None and _busy(last):
        # The short request was the nudge that stale gauges need; what they show after it counts.
        last = await _settled(asking)
    if asking.recorder.failed:
        return
    await compare()
    if asking.recorder.failed:
        return
    pool = last.kv_capacity if last else None
    probe = asides.capacity(look.model, spec, seed, sizing, pool=pool, context=look.context_limit)
    if probe is not None:
        await asking.ask(probe)
    if spec.aside.watch is not None and not asking.recorder.failed:
        await _watched(asking, spec.aside.watch * asking.time_scale)
        await _alive(asking, spec, look.model, first=ROUNDS)


async def _settled(asking: Asking) -> Sample | None:
    """Scrape until the server is at rest, or has shown for some time after the grace that it is not."""
    grace = max(_GRACE * asking.time_scale, _LEAST_GRACE)
    period = max(_SCRAPE * asking.time_scale, _LEAST_SCRAPE)
    sample = await asking.scrape()
    for _ in range(int(grace / period) + 1 + _AFTER_GRACE):
        if sample is None or not _busy(sample):
            break
        await anyio.sleep(period)
        sample = await asking.scrape()
    return sample


def _busy(sample: Sample) -> bool:
    return (sample.running or 0) > 0 or (sample.waiting or 0) > 0


async def _alive(asking: Asking, spec: Spec, model: str | None, *, first: int) -> None:
    """The health page and a short generation, up to three times while they disagree with life."""
    for number in range(asides.health_rounds(spec, ROUNDS)):
        status = await asking.page(PATH)
        answer = await asking.ask(asides.health(model, first + number))
        if answer.outcome is Outcome.COMPLETED or status != 200:
            return


async def _watched(asking: Asking, seconds: float) -> None:
    """Leave the server alone for `seconds`, then see whether it is still there."""
    await anyio.sleep(seconds)
    await asking.scrape()
