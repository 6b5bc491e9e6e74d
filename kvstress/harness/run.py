"""`kvstress run`: drive a workload against a live server, and say what broke first.

Reads like a table of contents: open the run directory, reach the server, measure how it
counts tokens, drive the plan until the judge says stop, ask after the server's health, and
conclude. Each stage is called here and nowhere else; none knows another.
"""

import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

import anyio

from kvstress.client.wire import Wire
from kvstress.core.errors import UsageError
from kvstress.core.events import Event, RunEnded, ServerChange, ServerEvent, Stop
from kvstress.core.exchange import Exchange
from kvstress.core.manifest import Manifest
from kvstress.core.plan import Plan, Request
from kvstress.core.sizing import Sizing
from kvstress.core.verdict import Judgement
from kvstress.driver.closed import drive
from kvstress.harness.options import RunOptions
from kvstress.harness.prepare import Prepared, draft_manifest, manifest, prepare
from kvstress.harness.recording import Recorder, dispatcher
from kvstress.harness.resume import Cut, fresh_path, same_server, where_it_stopped
from kvstress.harness.stored import write_pages
from kvstress.harness.target import FirstLook, first_look, launch_command, serving, target, wire_to
from kvstress.metrics.scrape import Scraper
from kvstress.oracles.judge import Judge
from kvstress.store import rundir
from kvstress.store.rundir import RunWriter
from kvstress.workload import asides, sizing

View = Callable[[Manifest], AbstractContextManager[Callable[[Event], None]]]
Clock = Callable[[], float]
Dispatch = Callable[[Request, float], Awaitable[Exchange]]

ASIDE_TIMEOUT = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What a run came to, and where it lies."""

    path: Path
    manifest: Manifest
    judgement: Judgement

    @property
    def exit_code(self) -> int:
        interrupted = self.judgement.stopped == Stop.INTERRUPTED.value
        return 130 if interrupted else self.judgement.verdict.exit_code


async def run(options: RunOptions, view: View) -> Result:
    """Carry out one run. Raises UsageError or CannotJudgeError; a server's misbehaviour is in the result."""
    prepared = prepare(options)
    cut = _cut(prepared)
    result = await _attempt(prepared, cut, view) if cut or not options.resume else None
    while result is None:
        # Without the same server there is nothing to continue: its cache was part of the experiment.
        result = await _attempt(_renewed(prepared), None, view)
    return result


def _cut(prepared: Prepared) -> Cut | None:
    """Where to go on; None when nothing is to be resumed, or when the server to resume on died with its kvstress."""
    if not prepared.options.resume:
        return None
    cut = where_it_stopped(prepared.path)
    if cut.manifest.plan_digest != prepared.plan.digest():
        raise UsageError(
            f"{prepared.path} was another plan (workload, seed, settings or data differ); its command was: "
            f"{cut.manifest.command}"
        )
    return None if launch_command(prepared.options) else cut


def _renewed(prepared: Prepared) -> Prepared:
    return replace(prepared, path=fresh_path(prepared.path), restarts_of=prepared.path.name)


@contextmanager
def _opened(prepared: Prepared, cut: Cut | None) -> Iterator[tuple[RunWriter, Manifest]]:
    """The run directory, its manifest written; a new one in which nothing happened is removed again."""
    first = cut.manifest if cut else draft_manifest(prepared)
    writer = (
        rundir.reopen(prepared.path)
        if cut
        else rundir.create(prepared.path, first, overwrite=prepared.options.overwrite, record=prepared.options.record)
    )
    try:
        yield writer, first
    finally:
        writer.close()
        rundir.discard_if_empty(prepared.path)


async def _attempt(prepared: Prepared, cut: Cut | None, view: View) -> Result | None:
    """One run from its first byte to its pages; None when `cut` cannot be continued on this server."""
    options = prepared.options
    clock = _clock_from(cut.at if cut else 0.0)
    with _opened(prepared, cut) as (writer, draft), view(draft) as watch:
        judge = cut.judge if cut else Judge(draft)
        recorder = Recorder(
            writer, judge, watch, keep_going=options.keep_going, stop_on_refusal=prepared.stop_on_refusal
        )
        async with (
            serving(options, prepared.path / "server.log", clock, recorder.emit) as url,
            wire_to(url, options, clock) as wire,
        ):
            look = await first_look(wire, url, options.model)
            scraper = Scraper(_fetcher(wire), clock, options.dialect)
            start = await scraper.scrape("start", None)
            if cut and not same_server(cut.last_sample, start):
                return None
            _announce(recorder, look, clock)
            if start:
                recorder.emit(start)
            dispatch = dispatcher(wire, recorder, clock)
            sized = (cut.manifest.sizing if cut else None) or await _size(dispatch, look, prepared, clock)
            plan = prepared.plan_for(look.model, sized)
            final = _final_manifest(prepared, plan, url, look, sized, start.dialect if start else None, cut)
            writer.amend(final)
            stop = await _drive(prepared, plan, cut, recorder, dispatch, scraper, clock)
            await _finish(prepared, look, stop, recorder, dispatch, scraper, clock)
        judgement = judge.judgement()
        writer.conclude(judgement)
    write_pages(prepared.path, final, judgement)
    return Result(path=prepared.path, manifest=final, judgement=judgement)


def _clock_from(offset: float) -> Clock:
    origin = time.perf_counter() - offset
    return lambda: time.perf_counter() - origin


def _fetcher(wire: Wire) -> Callable[[str], Awaitable[tuple[int | None, str, str | None]]]:
    async def fetch(path: str) -> tuple[int | None, str, str | None]:
        page = await wire.fetch(path)
        return page.status, page.text, page.problem

    return fetch


def _announce(recorder: Recorder, look: FirstLook, clock: Clock) -> None:
    if look.context_limit is not None:
        detail = f"/v1/models announces a context of {look.context_limit} tokens"
        limit = ServerEvent(at=clock(), change=ServerChange.LIMIT, detail=detail, tokens=look.context_limit)
        recorder.emit(limit)


async def _size(dispatch: Dispatch, look: FirstLook, prepared: Prepared, clock: Clock) -> Sizing:
    asked = sizing.requests(look.model, prepared.options.seed) if prepared.needs_sizing else ()
    answers = [await dispatch(request, clock()) for request in asked]
    return sizing.measure(asked, tuple(answers))


def _final_manifest(
    prepared: Prepared, plan: Plan, url: str, look: FirstLook, sized: Sizing, dialect: str | None, cut: Cut | None
) -> Manifest:
    if cut:
        return replace(cut.manifest, resumed_at=(*cut.manifest.resumed_at, cut.next_step))
    server = replace(target(prepared.options, url, look), dialect=dialect)
    return replace(manifest(prepared, plan, server), sizing=sized)


async def _drive(
    prepared: Prepared,
    plan: Plan,
    cut: Cut | None,
    recorder: Recorder,
    dispatch: Dispatch,
    scraper: Scraper,
    clock: Clock,
) -> Stop:
    """Drive the plan with a scraper beside it; the first SIGINT or SIGTERM ends it in good order."""

    async def observe(step: int) -> None:
        sample = await scraper.scrape("step", step)
        if sample:
            recorder.emit(sample)

    steps = islice(plan.steps(), cut.next_step if cut else 0, None)
    stop = Stop.INTERRUPTED
    async with _beside(scraper, recorder, prepared.options.scrape_interval) as scope:
        stop = await drive(
            steps,
            plan.schedule,
            plan.limits,
            dispatch=dispatch,
            observe=observe,
            emit=recorder.emit,
            stop=recorder.stop,
            clock=clock,
        )
        scope.cancel()
    return stop


@asynccontextmanager
async def _beside(scraper: Scraper, recorder: Recorder, interval: float) -> AsyncIterator[anyio.CancelScope]:
    """A task group whose scope is cancelled by a signal, with the interval scrape running in it."""
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_scrape_on_interval, scraper, recorder, interval)
        tasks.start_soon(_cancel_on_signal, tasks.cancel_scope, recorder)
        yield tasks.cancel_scope


async def _scrape_on_interval(scraper: Scraper, recorder: Recorder, interval: float) -> None:
    while True:
        await anyio.sleep(interval)
        sample = await scraper.scrape("interval", None)
        if sample is None:
            return
        recorder.emit(sample)


async def _cancel_on_signal(scope: anyio.CancelScope, recorder: Recorder) -> None:
    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async for _ in signals:
            recorder.interrupted = True
            scope.cancel()
            return


async def _finish(
    prepared: Prepared,
    look: FirstLook,
    stop: Stop,
    recorder: Recorder,
    dispatch: Dispatch,
    scraper: Scraper,
    clock: Clock,
) -> None:
    """After the last step: ask whether the server still generates, take a last sample, and say why the run ended."""
    wanted = prepared.options.asides and stop is not Stop.INTERRUPTED
    for request in asides.after(look.model, prepared.spec) if wanted else ():
        with anyio.move_on_after(ASIDE_TIMEOUT):
            await dispatch(request, clock())
    sample = await scraper.scrape("end", None)
    if sample:
        recorder.emit(sample)
    recorder.emit(RunEnded(at=clock(), stop=stop, detail=recorder.refusal_words() if stop is Stop.REFUSAL else ""))
