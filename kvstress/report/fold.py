"""The page is a fold over the events: one pass, and memory for what will be shown.

A run of a million requests must render on the machine that drove it, so nothing here keeps
the run. The judgement is known beforehand; that is why the steps it points at can be kept
whole while everything else is thinned or capped.
"""

from collections import Counter, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from kvstress.core.events import Event, RequestSent, RunEnded, ServerChange, ServerEvent, StepEnded, StepStarted
from kvstress.core.exchange import Choice, Exchange
from kvstress.core.latency import e2e, ttft
from kvstress.core.plan import Origin
from kvstress.core.sample import Sample
from kvstress.core.verdict import Judgement
from kvstress.core.words import cap
from kvstress.report.hostile import PAGE_CAP
from kvstress.report.phrases import failing_request
from kvstress.report.rows import Capped, Send, StepRow, StepRows
from kvstress.report.thin import Point, Thinned

POOL_SERIES = ("kv_free", "kv_cached", "kv_usage")
LATENCY_SERIES = 12
SHORT_TEXT = 200  # characters; violations are shown up to as many
SHORT_CHUNKS = 128


@dataclass(slots=True)
class RunFold:
    """What the page shows of a run. Feed it every event with `see`; `open` holds steps that never ended."""

    judgement: Judgement
    pool: dict[str, Thinned] = field(default_factory=dict)
    e2e: dict[tuple[str, str], Thinned] = field(default_factory=dict)
    ttft: dict[tuple[str, str], Thinned] = field(default_factory=dict)
    failed_at: Capped[tuple[int, str, float]] = field(default_factory=lambda: Capped(200))
    rows: StepRows = field(init=False)
    asides: Capped[Send] = field(default_factory=lambda: Capped(40))
    server: Capped[ServerEvent] = field(default_factory=lambda: Capped(40))
    kinds: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    events: Counter[str] = field(default_factory=Counter)
    capacity: float | None = None
    first_sample: Sample | None = None
    last_sample: Sample | None = None
    before: Sample | None = None
    at: Sample | None = None
    failing: Send | None = None
    failing_row: StepRow | None = None
    ended: RunEnded | None = None
    last_at: float = 0.0
    step_seconds: float = 0.0
    unanswered: Counter[str] = field(default_factory=Counter)
    log_tail: deque[ServerEvent] = field(default_factory=lambda: deque(maxlen=12))
    open: dict[int, tuple[str, list[Send]]] = field(default_factory=dict)
    _samples: dict[int, Sample] = field(default_factory=dict)
    _in_flight: dict[str, RequestSent] = field(default_factory=dict)
    _failing_id: str | None = None

    def __post_init__(self) -> None:
        first, full = self.judgement.first_failure, self.judgement.pool_fill
        self.rows = StepRows(tuple(mark.step for mark in (first, full) if mark is not None))
        self._failing_id = failing_request(self.judgement)

    def see(self, event: Event) -> None:
        """Take the next event."""
        self.events[type(event).__name__] += 1
        if (take := _SEE.get(type(event))) is not None:
            take(self, event)

    def finish(self) -> None:
        """Close what a killed run left open: steps without an end, requests without an answer."""
        for sent in self._in_flight.values():
            self._unanswered(sent)
        for step, (label, sends) in sorted(self.open.items()):
            self._row(StepRow(step=step, label=label, sends=tuple(sends), seconds=None, sample=self._samples.get(step)))
        self._in_flight, self.open = {}, {}

    def _unanswered(self, sent: RequestSent) -> None:
        self.unanswered[sent.origin] += 1
        if sent.step in self.open:
            self.open[sent.step][1].append(Send(sent=sent, exchange=None))

    def _row(self, row: StepRow) -> None:
        first = self.judgement.first_failure
        if first is not None and row.step == first.step:
            self.failing_row = row
        self.rows.add(row)

    def _step_started(self, event: StepStarted) -> None:
        self.last_at = event.at
        # A resumed run starts its interrupted step again; what was in flight then was never answered.
        for request in [r for r, sent in self._in_flight.items() if sent.step == event.step]:
            self._unanswered(self._in_flight.pop(request))
        self.open[event.step] = (event.label, [])

    def _sent(self, event: RequestSent) -> None:
        self._in_flight[event.request] = event
        if event.request == self._failing_id:
            self.before, self.at, self.failing = self.last_sample, None, Send(sent=event, exchange=None)

    def _exchange(self, event: Exchange) -> None:
        self.last_at = event.ended
        sent = self._in_flight.pop(event.request, None)
        if sent is None:
            return
        self.kinds[(sent.origin, event.outcome, event.kind)] += 1
        send = Send(sent=sent, exchange=_short(event))
        if event.request == self._failing_id:
            self.failing = send
        if sent.origin is Origin.ASIDE:
            self.asides.add(send)
        if sent.step is not None and sent.origin is Origin.STEP:
            self._step_exchange(sent.step, send, event)

    def _step_exchange(self, step: int, send: Send, event: Exchange) -> None:
        label, sends = self.open.setdefault(step, ("", []))
        sends.append(send)
        if event.outcome != "completed":
            self.failed_at.add((step, send.sent.phase, e2e(event)))
            return
        _series(self.e2e, (send.sent.phase, label)).add(step, e2e(event))
        first_token = ttft(event)
        if first_token is not None:
            _series(self.ttft, (send.sent.phase, label)).add(step, first_token)

    def _sample(self, event: Sample) -> None:
        self.last_at = max(self.last_at, event.at)
        self.first_sample = self.first_sample or event
        self.last_sample = event
        if event.kv_capacity is not None:
            self.capacity = max(self.capacity or 0.0, event.kv_capacity)
        if self.at is None and self.failing is not None and self.failing.exchange is not None:
            self.at = event
        if event.why == "step" and event.step is not None:
            self._samples[event.step] = event
            for name in POOL_SERIES:
                value = getattr(event, name)
                if value is not None:
                    self.pool.setdefault(name, Thinned()).add(event.step, value)

    def _step_ended(self, event: StepEnded) -> None:
        self.last_at = event.at
        self.step_seconds += event.seconds
        label, sends = self.open.pop(event.step, (event.label, []))
        sample = self._samples.pop(event.step, None)
        self._row(
            StepRow(
                step=event.step, label=label or event.label, sends=tuple(sends), seconds=event.seconds, sample=sample
            )
        )

    def _server(self, event: ServerEvent) -> None:
        self.last_at = max(self.last_at, event.at)
        short = replace(event, detail=cap(event.detail, PAGE_CAP))
        if event.change is ServerChange.LOG:
            self.log_tail.append(short)
        else:
            self.server.add(short)

    def _ended(self, event: RunEnded) -> None:
        self.last_at = max(self.last_at, event.at)
        self.ended = event


_SEE: dict[type, Callable[[RunFold, Any], None]] = {
    StepStarted: RunFold._step_started,
    RequestSent: RunFold._sent,
    Exchange: RunFold._exchange,
    Sample: RunFold._sample,
    StepEnded: RunFold._step_ended,
    ServerEvent: RunFold._server,
    RunEnded: RunFold._ended,
}


def _short(event: Exchange) -> Exchange:
    """The exchange without what the page never shows: chunk times, log-probabilities and the end of long texts."""
    # Nearly every answer of a long run is short; copying each of a million takes longer than all else here.
    if _is_short(event):
        return event
    return replace(
        event,
        chunk_at=event.chunk_at[:1],
        chunk_bytes=(),
        choices=tuple(_short_choice(choice) for choice in event.choices[:1]),
        server_words=_capped(event.server_words),
        error_bytes=_capped(event.error_bytes),
        violations=tuple(cap(v, 200) for v in event.violations[:20]),
    )


def _is_short(event: Exchange) -> bool:
    texts = [event.server_words, event.error_bytes, *event.violations]
    for choice in event.choices:
        if choice.logprobs is not None:
            return False
        texts += (choice.text, choice.reasoning, choice.tool_calls)
    return len(event.chunk_at) <= SHORT_CHUNKS and sum(len(text) for text in texts if text) <= SHORT_TEXT


def _short_choice(choice: Choice) -> Choice:
    text, reasoning, tools = (
        cap(choice.text, PAGE_CAP),
        cap(choice.reasoning, PAGE_CAP),
        cap(choice.tool_calls, PAGE_CAP),
    )
    return replace(choice, text=text, reasoning=reasoning, tool_calls=tools, logprobs=None)


def _capped(text: str | None) -> str | None:
    return None if text is None else cap(text, PAGE_CAP)


def _series(series: dict[tuple[str, str], Thinned], key: tuple[str, str]) -> Thinned:
    # A ramp has a new label at every step: then one series a phase, or the legend would be longer than the chart.
    if key not in series and len(series) >= LATENCY_SERIES:
        key = (key[0], "")
    return series.setdefault(key, Thinned())


def lines(series: dict[tuple[str, str], Thinned]) -> dict[tuple[str, str], list[Point]]:
    """The series to draw: one for each (phase, label), or one for each phase when labels hardly repeat."""
    points = {key: thinned.points() for key, thinned in series.items()}
    if not any(not label for _, label in points) and all(len(p) > 1 for p in points.values()):
        return points
    merged: dict[tuple[str, str], list[Point]] = {}
    for (phase, _), own in points.items():
        merged.setdefault((phase, ""), []).extend(own)
    return {key: sorted(own) for key, own in merged.items()}


def folded(judgement: Judgement, events: Iterable[Event]) -> RunFold:
    """`events` folded for the page of `judgement`."""
    fold = RunFold(judgement)
    for event in events:
        fold.see(event)
    fold.finish()
    return fold
