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
from kvstress.core.outcome import Kind
from kvstress.core.plan import Limits, Plan, Request
from kvstress.core.sample import Sample
from kvstress.core.sizing import ASSUMED, Sizing
from kvstress.core.verdict import Judgement
from kvstress.driver.closed import drive, raise_alone
from kvstress.harness.alone import timed_alone
from kvstress.harness.asides import Asking, afterwards
from kvstress.harness.beside import Beside, beside
from kvstress.harness.cold import compared_cold, twin_answers
from kvstress.harness.exact import exactly
from kvstress.harness.forms import forms_taken
from kvstress.harness.heeding import heeding_signals
from kvstress.harness.options import RunOptions
from kvstress.harness.prepare import Prepared, draft_manifest, manifest, prepare
from kvstress.harness.recording import Recorder, dispatcher, notice_lag
from kvstress.harness.resume import Cut, fresh_path, same_server, where_it_stopped
from kvstress.harness.sending import sending
from kvstress.harness.target import (
    FirstLook,
    first_look,
    launch_command,
    serving,
    target,
    wire_to,
    with_twin,
)
from kvstress.metrics.scrape import Scraper
from kvstress.oracles.judge import Judge
from kvstress.store import rundir
from kvstress.store.rundir import RunWriter
from kvstress.workload import sizing

View = Callable[[Manifest], AbstractContextManager[Callable[[Event], None]]]
Clock = Callable[[], float]
Dispatch = Callable[[Request, float], Awaitable[Exchange]]


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


async def carry_out(prepared: Prepared, view: View) -> Result:
    """One run of a plan that is prepared already, from its beginning."""
    result = await _attempt(prepared, None, view)
    assert result is not None
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
    clock = _clock_from(cut.at if cut else 0.0)
    with _opened(prepared, cut) as (writer, draft), view(draft) as watch:
        judge = cut.judge if cut else Judge(draft)
        recorder = Recorder(
            writer, judge, watch, keep_going=prepared.options.keep_going, ends_at_refusal=prepared.ends_at_refusal
        )
        async with (
            heeding_signals() as heeding,
            with_twin(prepared.options, prepared.path, clock) as options,
            _reached(replace(prepared, options=options), cut, recorder, clock) as live,
        ):
            if live is None:
                return None
            final = await _sized(live, writer)
            heeding.cancel()
            stop = await _drive(live, final.sizing)
            await _finish(live, stop, final.sizing)
        judgement = judge.judgement()
        writer.conclude(judgement)
    if prepared.pages:
        # Templates and charts take longer to load than a run to begin.
        from kvstress.harness.stored import write_pages

        write_pages(prepared.path, final, judgement)
    return Result(path=prepared.path, manifest=final, judgement=judgement)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Live:
    """A run whose server has answered."""

    prepared: Prepared
    cut: Cut | None
    url: str
    wire: Wire
    look: FirstLook
    start: Sample | None
    recorder: Recorder
    dispatch: Dispatch
    scraper: Scraper
    clock: Clock


@asynccontextmanager
async def _reached(
    prepared: Prepared, cut: Cut | None, recorder: Recorder, clock: Clock
) -> AsyncIterator[_Live | None]:
    """The server, once it answered and was asked for its metrics; None when it is not the one that `cut` ran on."""
    options = prepared.options
    async with (
        serving(options, prepared.path, clock, recorder.emit, lambda: recorder.failed) as url,
        wire_to(url, options, clock) as wire,
        sending(url, options, wire, clock, recorder.emit) as send,
    ):
        look = await first_look(wire, url, options.model)
        await twin_answers(options, clock)
        seen = cut.last_sample.kv_capacity if cut and cut.last_sample else None
        scraper = Scraper(_fetcher(wire), clock, options.dialect, offload=anyio.to_thread.run_sync, capacity=seen)
        start = await scraper.scrape("start", None)
        if cut and not same_server(cut.last_sample, start):
            yield None
            return
        yield _Live(
            prepared=prepared,
            cut=cut,
            url=url,
            wire=wire,
            look=look,
            start=start,
            recorder=recorder,
            dispatch=dispatcher(send, recorder, clock),
            scraper=scraper,
            clock=clock,
        )


def _clock_from(offset: float) -> Clock:
    origin = time.perf_counter() - offset
    return lambda: time.perf_counter() - origin


def _fetcher(wire: Wire) -> Callable[[str], Awaitable[tuple[int | None, str, str | None]]]:
    async def fetch(path: str) -> tuple[int | None, str, str | None]:
        page = await wire.fetch(path)
        return page.status, page.text, page.problem

    return fetch


async def _sized(live: _Live, writer: RunWriter) -> Manifest:
    """Record what the server told of itself, measure how it counts tokens, and complete the manifest."""
    announced = live.look.context_limit
    if announced is not None:
        detail = f"/v1/models announces a context of {announced} tokens"
        live.recorder.emit(ServerEvent(at=live.clock(), change=ServerChange.LIMIT, detail=detail, tokens=announced))
    if live.start:
        live.recorder.emit(live.start)
    final = _resumed(live, live.cut) if live.cut else await _new(live)
    writer.amend(final)
    return final


def _resumed(live: _Live, cut: Cut) -> Manifest:
    live.wire.done_due = cut.manifest.target.sends_done is not False
    return replace(cut.manifest, resumed_at=(*cut.manifest.resumed_at, cut.next_step))


async def _new(live: _Live) -> Manifest:
    prepared = live.prepared
    live.wire.done_due = prepared.sends_done is not False
    seed, shape = prepared.options.seed, {"stream": prepared.streams, "told": prepared.tells}
    asked = sizing.requests(live.look.model, seed, **shape) if prepared.probes else ()
    answers = [await _probe(live, request) for request in asked]
    sized = sizing.measure(asked, tuple(answers))
    pairs = tuple(zip(asked, answers, strict=True))
    sized = await exactly(pairs, prepared.spec, seed, sized, lambda one: _probe(live, one), live.wire)
    sized = replace(sized, capacity=live.start.kv_capacity if live.start else None)
    if prepared.options.asides:
        sized = await forms_taken(_asking(live), prepared.spec, live.look.model, sized)
        sized = await timed_alone(_asking(live), prepared.spec, live.look.model, seed, sized)
    plan = prepared.plan_for(live.look.model, sized)
    server = replace(
        target(prepared.options, live.url, live.look),
        dialect=live.start.dialect if live.start else None,
        sends_done=live.wire.done_due if prepared.streams else None,
    )
    return replace(manifest(prepared, plan, server), sizing=sized)


async def _probe(live: _Live, request: Request) -> Exchange:
    """Send a sizing request; one that ends whole but without `[DONE]` shows that this server never sends it."""
    answer = await live.dispatch(request, live.clock())
    if answer.kind is Kind.MISSING_DONE and answer.finished:
        live.wire.done_due = False
    return answer


async def _drive(live: _Live, sized: Sizing | None) -> Stop:
    """Drive the plan with a scraper beside it; the first SIGINT or SIGTERM ends it in good order."""
    plan = live.prepared.plan_for(live.look.model, sized or ASSUMED)

    async def observe(step: int) -> None:
        sample = await live.scraper.scrape("step", step)
        if sample:
            live.recorder.emit(sample)
        if twin is not None:
            await twin.compare(step)

    async def dispatch(request: Request, due: float) -> Exchange:
        exchange = await live.dispatch(request, due)
        if twin is not None:
            twin.note(request, exchange)
        return exchange

    stop = Stop.INTERRUPTED
    async with _asked_beside(live, plan, sized or ASSUMED) as twin, _beside(live) as scope:
        stop = await drive(
            islice(plan.steps(), live.cut.next_step if live.cut else 0, None),
            plan.schedule,
            _remaining(plan.limits, live.cut),
            dispatch=dispatch,
            observe=observe,
            emit=live.recorder.emit,
            stop=live.recorder.stop,
            clock=live.clock,
            transcript=live.cut.transcript if live.cut else None,
        )
        scope.cancel()
    return stop


@asynccontextmanager
async def _asked_beside(live: _Live, plan: Plan, sized: Sizing) -> AsyncIterator[Beside | None]:
    """The twin that is asked after every step; None where there is none, or it is not to be asked so."""
    options, aside = live.prepared.options, live.prepared.spec.aside
    if options.twin is None or not aside.each_step or not options.asides:
        yield None
        return
    async with beside(_asking(live), plan, options, aside.calibrate, sized) as twin:
        yield twin


def _remaining(limits: Limits, cut: Cut | None) -> Limits:
    """The caps that are left: a resumed run has one duration, not one a try."""
    if cut is None or limits.max_duration is None:
        return limits
    return replace(limits, max_duration=max(0.0, limits.max_duration - cut.at))


@asynccontextmanager
async def _beside(live: _Live) -> AsyncIterator[anyio.CancelScope]:
    """A scope that a signal cancels, with the interval scrape running in it."""
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_scrape_on_interval, live)
        tasks.start_soon(_cancel_on_signal, tasks.cancel_scope, live.recorder)
        tasks.start_soon(notice_lag, live.recorder.emit, live.clock)
        yield tasks.cancel_scope


async def _scrape_on_interval(live: _Live) -> None:
    sample = live.start
    while sample is not None:
        await anyio.sleep(live.prepared.options.scrape_interval)
        sample = await live.scraper.scrape("interval", None)
        if sample:
            live.recorder.emit(sample)


async def _cancel_on_signal(scope: anyio.CancelScope, recorder: Recorder) -> None:
    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async for _ in signals:
            recorder.interrupted = True
            scope.cancel()
            return


async def _finish(live: _Live, stop: Stop, sized: Sizing | None) -> None:
    """After the last step: ask whether the server still generates, take a last sample, and say why the run ended."""
    if live.prepared.options.asides and stop is not Stop.INTERRUPTED:
        async with _noticing(live):
            await _asides(live, sized or ASSUMED)
    sample = await live.scraper.scrape("end", None)
    if sample:
        live.recorder.emit(sample)
    detail = live.recorder.refusal_words() if stop is Stop.REFUSAL else ""
    live.recorder.emit(RunEnded(at=live.clock(), stop=stop, detail=detail))


@asynccontextmanager
async def _noticing(live: _Live) -> AsyncIterator[None]:
    """Notice lag of our own while asides are asked: they are timed too."""
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(notice_lag, live.recorder.emit, live.clock)
            yield
            tasks.cancel_scope.cancel()
    except BaseExceptionGroup as group:
        raise_alone(group)


async def _asides(live: _Live, sized: Sizing) -> None:
    prepared, look, asking = live.prepared, live.look, _asking(live)

    async def compare() -> None:
        plan = prepared.plan_for(look.model, sized)
        await compared_cold(asking, plan, prepared.spec, prepared.options, look.model, sized, live.recorder.steps)

    await afterwards(asking, prepared.spec, look, prepared.options.seed, sized, compare)


def _asking(live: _Live) -> Asking:
    """What asides of this run need."""
    return Asking(
        wire=live.wire,
        recorder=live.recorder,
        scraper=live.scraper,
        clock=live.clock,
        time_scale=live.prepared.options.time_scale,
    )
