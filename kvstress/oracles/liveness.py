"""LIVENESS: does every request make progress?

Compares each request with deadlines: the run's own (`--timeout`; past it a request is LOST), and for streams the time
to the first content and the gaps after it, with what this server showed when it was asked one thing at a time. A
queue that nobody serves (nothing running, something waiting, no answer) is a stall even before any deadline. A
launched server that exits in mid-run is dead whatever its code, where SURVIVAL is not armed to say so.

Threshold: first content 10 × the slowest of the first alone, by prompt length, times the requests beside it, and 60
s; gaps 20 × the largest of the first answers and 30 s; a stall 60 s on three scrapes; all scaled by `--time-scale`
(not below 4, 2.5 and 3 s). Slow is not wrong, so the budgets are wide. Keepalive comments are no content, so they
hide nothing.
Noisy when: graphs are captured on first use (the first answers are the calibration); when kvstress itself stood still
(then the finding is INCONCLUSIVE).
"""

from collections import deque

from kvstress.core.events import Event, Lagged, RequestSent, ServerChange, ServerEvent, StepStarted
from kvstress.core.exchange import Exchange
from kvstress.core.latency import itl, ttft
from kvstress.core.manifest import Manifest
from kvstress.core.outcome import Kind, Outcome
from kvstress.core.plan import Origin
from kvstress.core.sample import Sample
from kvstress.core.units import show_duration
from kvstress.core.verdict import Finding, Verdict
from kvstress.oracles.oracle import about, found, patience

NAME = "LIVENESS"

_LEARN, _LEAST = 16, 3
_LAG = 0.5
_LIVELY = 1.0


class Liveness:
    """Keeps the step in progress, the first answers' times, open requests, and when it was last seen to move."""

    def __init__(self, manifest: Manifest) -> None:
        self._timeout = manifest.timeout
        self._exits = "SURVIVAL" not in manifest.oracles
        self._first_budget = patience(manifest, 60.0, least=4.0)
        self._gap_budget = patience(manifest, 30.0, least=2.5)
        self._stall_budget = patience(manifest, 60.0, least=3.0)
        self._step: int | None = None
        self._open: dict[str, int] = {}
        self._paces: list[tuple[float, float]] = []
        self._gaps: list[float] = []
        self._lags: deque[Lagged] = deque(maxlen=64)
        self._stalled_since: float | None = None
        self._stalls = 0
        self._told = False

    def see(self, event: Event, asked: RequestSent | None) -> tuple[Finding, ...]:
        match event:
            case StepStarted():
                self._step = event.step
            case Lagged():
                self._lags.append(event)
            case RequestSent():
                self._open[event.request] = len(self._open)
            case Sample():
                return self._queue(event)
            case ServerEvent(change=ServerChange.EXITED) if self._exits:
                return (self._exited(event),)
            case Exchange():
                self._stalled_since, self._told = None, False
                beside = self._open.pop(event.request, 0)
                return () if asked is None else self._answered(event, asked, max(beside, len(self._open)))
        return ()

    def _answered(self, event: Exchange, asked: RequestSent, beside: int) -> tuple[Finding, ...]:
        if event.kind is Kind.DEADLINE:
            return (self._unanswered(event, asked),)
        if event.outcome is not Outcome.COMPLETED or not event.chunk_at:
            return ()
        longest = max(itl(event), default=None)
        late = (*self._first(event, asked, beside), *self._gap(longest, event, asked))
        if not late:
            self._learn(longest, event, asked, beside)
        return late

    def _unanswered(self, event: Exchange, asked: RequestSent) -> Finding:
        """Asides have a deadline of their own, shorter than the run's."""
        waited = event.ended - event.sent
        limit = show_duration(waited if asked.origin is Origin.ASIDE else self._timeout)
        lag = self._lag(event)
        ours = f"; kvstress itself stood still for {lag:.1f} s of it" if lag > waited / 4 else ""
        verdict = Verdict.INCONCLUSIVE if ours else Verdict.FAIL
        summary = f"no complete answer within {limit}; {_how_far(event)}{ours}"
        return about(NAME, verdict, event, asked, summary, limit)

    def _lag(self, event: Exchange) -> float:
        """Seconds for which kvstress stood still while it waited for this answer."""
        return sum(one.seconds for one in self._lags if event.sent <= one.at <= event.ended + 1.0)

    def _learn(self, longest: float | None, event: Exchange, asked: RequestSent, beside: int) -> None:
        first = ttft(event)
        if beside == 0 and first is not None and len(self._paces) < _LEARN:
            self._paces.append((float(asked.tokens or 1), first))
        if longest is not None and len(self._gaps) < 4 * _LEARN:
            self._gaps.append(longest)

    def _first(self, event: Exchange, asked: RequestSent, beside: int) -> tuple[Finding, ...]:
        first = ttft(event)
        if first is None or len(self._paces) < _LEAST:
            return ()
        size = float(asked.tokens or 1)
        usual = max(seconds * max(1.0, size / tokens) for tokens, seconds in self._paces)
        budget = max(self._first_budget, 10 * usual * (1 + beside))
        return self._over("first content", first, budget, event, asked)

    def _gap(self, longest: float | None, event: Exchange, asked: RequestSent) -> tuple[Finding, ...]:
        if longest is None or len(self._gaps) < _LEAST - 1:
            return ()
        return self._over("next content", longest, max(self._gap_budget, 20 * max(self._gaps)), event, asked)

    def _over(self, what: str, took: float, budget: float, event: Exchange, asked: RequestSent) -> tuple[Finding, ...]:
        if took <= budget:
            return ()
        lag = max(self._lag(event), event.sent - asked.at)
        ours = f"; kvstress itself stood still for {lag:.1f} s of it" if lag > _LAG else ""
        verdict = Verdict.INCONCLUSIVE if ours else Verdict.FAIL
        summary = f"{what} took {show_duration(took)}{ours}"
        limit = show_duration(budget)
        return (found(NAME, verdict, f"late {what}", summary, asked=asked, measured=show_duration(took), limit=limit),)

    def _queue(self, sample: Sample) -> tuple[Finding, ...]:
        stuck = bool(self._open) and sample.running == 0 and (sample.waiting or 0) > 0
        if not stuck:
            self._stalled_since, self._stalls, self._told = None, 0, False
            return ()
        if self._stalled_since is None:
            self._stalled_since, self._stalls = sample.at, 0
        self._stalls += 1
        took = sample.at - self._stalled_since
        if took < self._stall_budget or self._stalls < 3 or self._told:
            return ()
        self._stalled_since, self._stalls = None, 0
        lag = sum(one.seconds for one in self._lags if sample.at - took <= one.at)
        ours = f"; kvstress itself stood still for {lag:.1f} s of it" if lag > took / 4 else ""
        what = f"for {show_duration(took)} nothing ran while {sample.waiting:g} waited, and nothing was answered{ours}"
        asked = tuple(self._open)[:8]
        limit = show_duration(self._stall_budget)
        verdict = Verdict.INCONCLUSIVE if ours else Verdict.FAIL
        # One stall is one finding, however long the run waits for the requests in it.
        self._told = not ours
        return (found(NAME, verdict, "stall", what, step=self._step, measured=what, limit=limit, evidence=asked),)

    def _exited(self, event: ServerEvent) -> Finding:
        code = "unknown" if event.code is None else str(event.code)
        return Finding(
            oracle=NAME,
            verdict=Verdict.FAIL,
            signature=f"{NAME}:exited:{code}",
            step=self._step,
            summary=f"the server process ended in mid-run with exit code {code}; {event.detail}".rstrip("; "),
            measured=f"exit code {code}",
            limit="the server stays up",
        )


def _how_far(event: Exchange) -> str:
    """What an answer was doing at its deadline: one that still grew did not stall, it had no end."""
    if not event.chunk_at:
        return "it stalled before any content" + (f", after {event.body_bytes:,} bytes" if event.body_bytes else "")
    count, silent = len(event.chunk_at), event.ended - event.chunk_at[-1]
    chunks = "1 content chunk" if count == 1 else f"{count:,} content chunks"
    if silent > max(_LIVELY, 2 * max(itl(event), default=0.0)):
        return f"it stalled after {chunks}"
    return f"it was still coming: {chunks}, the last {show_duration(silent)} before"
