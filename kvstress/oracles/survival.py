"""SURVIVAL: is it one process from the first request to the last, and after it?

Compares the server's start time and counters from scrape to scrape (a later start, or all counters fallen together,
is a restart), watches the process that kvstress launched, and asks after the last step and after a while of silence
whether anything listens still: some engines die of going idle. Source: samples, server events, pages and asides.

Threshold: one is enough; a restart that nobody asked for is an error however fast it was. Counters alone prove one
only when every one that had counted fell.
Noisy when: a deployment restarts its servers by plan; when a balancer answers from another replica.
"""

from kvstress.core.events import Event, PageRead, RequestSent, ServerChange, ServerEvent, StepEnded, StepStarted
from kvstress.core.exchange import Exchange
from kvstress.core.manifest import Manifest
from kvstress.core.outcome import Kind, Outcome
from kvstress.core.plan import Origin
from kvstress.core.sample import Sample
from kvstress.core.verdict import Finding, Verdict
from kvstress.oracles.ledger import totals
from kvstress.oracles.oracle import found

NAME = "SURVIVAL"

_GONE = frozenset({Kind.CONNECTION_REFUSED, Kind.CONNECT_FAILED})


class Survival:
    """Keeps the last counters, the step in progress, and whether anything was ever answered."""

    def __init__(self, manifest: Manifest) -> None:
        del manifest
        self._last: dict[str, float] = {}
        self._step: int | None = None
        self._stepping = False
        self._answered = False
        self._told = False

    def see(self, event: Event, asked: RequestSent | None) -> tuple[Finding, ...]:
        if isinstance(event, StepStarted):
            self._step, self._stepping = event.step, True
        elif isinstance(event, StepEnded):
            self._stepping = False
        what = self._wrong(event, asked)
        if what is None or self._told:
            return ()
        self._told = True
        key, summary = what
        limit = "one process throughout"
        step = self._step if self._stepping else None
        return (found(NAME, Verdict.FAIL, key, summary, asked=asked, step=step, measured=summary, limit=limit),)

    def _wrong(self, event: Event, asked: RequestSent | None) -> tuple[str, str] | None:
        match event:
            case ServerEvent(change=ServerChange.EXITED):
                code = "unknown" if event.code is None else str(event.code)
                return "exited", f"the server process ended with exit code {code}; {event.detail}".rstrip("; ")
            case ServerEvent(change=ServerChange.RESTARTED):
                return "restarted", f"the server was restarted; {event.detail}".rstrip("; ")
            case Sample():
                return self._scraped(event)
            case Exchange():
                return self._exchanged(event, asked)
            case PageRead() if self._answered and event.status is None and "refused" in (event.problem or ""):
                return "gone", f"nothing listens any more: {event.path}: {event.problem}"
        return None

    def _exchanged(self, exchange: Exchange, asked: RequestSent | None) -> tuple[str, str] | None:
        self._answered = self._answered or exchange.outcome is Outcome.COMPLETED
        if self._answered and exchange.kind in _GONE:
            aside = asked is not None and asked.origin is Origin.ASIDE
            return "gone", "nothing listens any more" + (" after the last step" if aside else "")
        return None

    def _scraped(self, sample: Sample) -> tuple[str, str] | None:
        now = totals(sample)
        before, started = self._last, "process_started"
        self._last = before | now
        if started in now and started in before and now[started] > before[started] + 1.0:
            return "restarted", f"the process began anew {now[started] - before[started]:.0f} s after the one before"
        counted = [name for name in now if name != started and before.get(name, 0.0) > 0]
        # Where the start time is told and stands, counters that fall are a lie, which is METRIC's.
        if started not in now and len(counted) > 1 and all(now[name] < before[name] for name in counted):
            return "restarted", "all counters fell together: the process began anew"
        return None
