"""A stored run as what a gate asks about it: one pass over its events, and memory for a few thousand samples.

The judge folds over the same pass, so a run of a million requests is read once. Latencies are kept as a
uniform sample (reservoir) whose draws are seeded: the same run always gives the same gate.
"""

from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Generic, TypeVar

from kvstress.core import latency
from kvstress.core.events import Event, RequestSent, StepEnded
from kvstress.core.exchange import Exchange
from kvstress.core.manifest import Manifest
from kvstress.core.outcome import Outcome
from kvstress.core.plan import Origin
from kvstress.core.rates import Rate, measured, watching
from kvstress.core.sample import Sample
from kvstress.core.verdict import Judgement, Verdict
from kvstress.gate.evidence import First, Seen
from kvstress.oracles.judge import Judge
from kvstress.store import glance, rundir

SAMPLES_KEPT = 2_000

T = TypeVar("T")


@dataclass(slots=True)
class Reservoir(Generic[T]):
    """A uniform sample of at most SAMPLES_KEPT of any number of values (Vitter's algorithm R)."""

    kept: list[T] = field(default_factory=list)
    total: int = 0
    _random: Random = field(default_factory=lambda: Random(0))

    def add(self, value: T) -> None:
        """Take one more value."""
        self.total += 1
        if len(self.kept) < SAMPLES_KEPT:
            self.kept.append(value)
        elif (place := self._random.randrange(self.total)) < SAMPLES_KEPT:
            self.kept[place] = value


@dataclass(slots=True)
class _Timings:
    """Latencies of completed step requests by word and phase, and the tokens they generated over the time they took."""

    latencies: defaultdict[tuple[str, str], Reservoir[tuple[int, float]]] = field(
        default_factory=lambda: defaultdict(Reservoir)
    )
    paces: Reservoir[tuple[int, float, float]] = field(default_factory=Reservoir)
    capacity: float | None = None
    tokens: int | None = None
    began: float | None = None
    ended: float = 0.0
    _phases: dict[str, tuple[int, str]] = field(default_factory=dict)
    _open: dict[int, float] = field(default_factory=dict)

    def see(self, event: Event) -> None:
        if isinstance(event, RequestSent) and event.origin is Origin.STEP and event.step is not None:
            self._phases[event.request] = event.step, event.phase
        elif isinstance(event, Exchange):
            self._exchange(event)
        elif isinstance(event, StepEnded):
            # A step whose tokens nobody counted has no pace; it is not one of 0.
            if (tokens := self._open.pop(event.step, None)) is not None and event.seconds > 0:
                self.paces.add((event.step, tokens, event.seconds))
        elif isinstance(event, Sample) and event.kv_capacity is not None:
            self.capacity = max(self.capacity or 0.0, event.kv_capacity)

    def _exchange(self, event: Exchange) -> None:
        sent = self._phases.pop(event.request, None)
        if sent is None or event.outcome is not Outcome.COMPLETED:
            return
        step, phase = sent
        self.began = event.sent if self.began is None else min(self.began, event.sent)
        self.ended = max(self.ended, event.ended)
        if event.usage is not None and event.usage.completion_tokens is not None:
            self.tokens = (self.tokens or 0) + event.usage.completion_tokens
            self._open[step] = self._open.get(step, 0.0) + event.usage.completion_tokens
        single = {"e2e": latency.e2e(event), "ttft": latency.ttft(event), "tpot": latency.tpot(event)}
        for word, value in single.items():
            if value is not None:
                self._add(word, phase, step, value)
        for gap in latency.itl(event):
            self._add("itl", phase, step, gap)

    def _add(self, word: str, phase: str, step: int, value: float) -> None:
        self.latencies[word, phase].add((step, value))

    @property
    def throughput(self) -> float | None:
        """Generated tokens a second, from the first request sent to the last one ended; None when none were counted."""
        if self.tokens is None or self.began is None or self.ended <= self.began:
            return None
        return self.tokens / (self.ended - self.began)


def look(path: Path) -> tuple[Manifest, Judgement, Seen]:
    """The run at `path`, judged anew. Raises UsageError when it is not a run, CannotJudgeError when it is damaged."""
    manifest = rundir.read_manifest(path)
    judge, timings, rates = Judge(manifest), _Timings(), measured(manifest)
    for event in watching(rates, rundir.read_events(path)):
        judge.see(event)
        timings.see(event)
    judgement = judge.judgement()
    return manifest, judgement, _seen(manifest, judgement, timings, rates.table() if rates else ())


def _seen(manifest: Manifest, judgement: Judgement, timings: _Timings, rates: tuple[Rate, ...]) -> Seen:
    failing = frozenset(f.signature for f in judgement.findings if f.verdict is Verdict.FAIL)
    fill = judgement.pool_fill
    return Seen(
        run=manifest.run,
        plan=manifest.plan_digest,
        first=_first(judgement),
        levels={
            "pool_fill": None if fill is None else float(fill.step),
            "capacity": timings.capacity,
            "steps": float(judgement.steps),
            "failures": float(judgement.verdict is Verdict.FAIL),
            "errors": float(sum(judgement.requests.get(bad, 0) for bad in ("failed", "broken", "lost"))),
            "findings": float(len(failing)),
            "requests": float(sum(judgement.requests.values())),
            "throughput": timings.throughput,
        },
        signatures=failing,
        latencies={key: tuple(reservoir.kept) for key, reservoir in timings.latencies.items()},
        paces=tuple(timings.paces.kept),
        batches={rate.label: rate.batches for rate in rates},
    )


def _first(judgement: Judgement) -> First | None:
    if judgement.first_failure is not None:
        first = judgement.first_failure
        return First(step=first.step, failed=True, signature=first.signature)
    return None if judgement.censored_at is None else First(step=judgement.censored_at, failed=False)


def skim(path: Path) -> tuple[Manifest, Seen]:
    """The run at `path` from its tables and its verdict as it stands, for runs too long to be judged anew in passing.

    Single gaps between chunks are not in the tables. Raises UsageError and CannotJudgeError as `look` does.
    """
    manifest, told = rundir.read_manifest(path), glance.verdict(path)
    latencies: defaultdict[tuple[str, str], Reservoir[tuple[int, float]]] = defaultdict(Reservoir)
    tokens: dict[int, int] = {}
    for timed in glance.completed(path):
        for word, value in (("e2e", timed.e2e), ("ttft", timed.ttft), ("tpot", timed.tpot)):
            if value is not None:
                latencies[word, timed.phase].add((timed.step, value))
        if timed.tokens is not None:
            tokens[timed.step] = tokens.get(timed.step, 0) + timed.tokens
    paces: Reservoir[tuple[int, float, float]] = Reservoir()
    for step, seconds in glance.step_seconds(path):
        if (generated := tokens.pop(step, None)) is not None and seconds > 0:
            paces.add((step, float(generated), seconds))
    return manifest, _skimmed(manifest, told, latencies, paces, glance.capacity(path))


def _skimmed(
    manifest: Manifest,
    told: dict[str, Any],
    latencies: dict[tuple[str, str], Reservoir[tuple[int, float]]],
    paces: Reservoir[tuple[int, float, float]],
    capacity: float | None,
) -> Seen:
    failing = frozenset(one["signature"] for one in told["findings"] if one["verdict"] == Verdict.FAIL.name)
    fill, requests = told["pool_fill"], told["requests"]
    first, censored = told["first_failure"], told["censored_at"]
    ended = None if censored is None else First(step=censored, failed=False)
    return Seen(
        run=manifest.run,
        plan=manifest.plan_digest,
        first=ended if first is None else First(step=first["step"], failed=True, signature=first["signature"]),
        levels={
            "pool_fill": None if fill is None else float(fill["step"]),
            "capacity": capacity,
            "errors": float(sum(requests.get(bad, 0) for bad in ("failed", "broken", "lost"))),
            "requests": float(sum(requests.values())),
            "findings": float(len(failing)),
        },
        signatures=failing,
        latencies={key: tuple(reservoir.kept) for key, reservoir in latencies.items()},
        paces=tuple(paces.kept),
    )
