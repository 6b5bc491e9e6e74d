"""QUIESCE: does everything come back once all requests have ended?

Compares what the server says after the last answer, a grace and a one-token nudge with rest: nothing runs, nothing
waits, and (the half that needs no metrics) a prompt of almost the pool's size, asked alone, is still admitted after
aborts. Source: samples at the end of the run, and the `capacity` aside.

Threshold: three scrapes in a row after the grace (10 s, scaled) that still show requests; one capacity probe that
fails or is never answered. A probe that is cleanly refused proves nothing: servers count room in different ways.
Noisy when: gauges go stale until the next request (hence the nudge); evictable pages count as used (usage is
therefore told and never judged); when others use the server too (then it is busy, not leaking).
"""

from kvstress.core.events import Event, RequestSent, RunEnded
from kvstress.core.exchange import Exchange
from kvstress.core.manifest import Manifest
from kvstress.core.outcome import Outcome
from kvstress.core.plan import Origin
from kvstress.core.sample import Sample
from kvstress.core.verdict import Finding, Verdict
from kvstress.oracles.oracle import found, patience

NAME = "QUIESCE"

_SCRAPES = 3
_FAILED = frozenset({Outcome.FAILED, Outcome.BROKEN, Outcome.LOST})


class Quiesce:
    """Keeps the number of open requests, when the last ended, and the busy scrapes since."""

    def __init__(self, manifest: Manifest) -> None:
        self._grace = patience(manifest, 10.0, least=2.0)
        self._open: set[str] = set()
        self._ended_at = 0.0
        self._busy: list[Sample] = []
        self._usage: tuple[float, float] | None = None

    def see(self, event: Event, asked: RequestSent | None) -> tuple[Finding, ...]:
        match event:
            case RequestSent():
                self._open.add(event.request)
                self._busy = []
            case Exchange():
                self._open.discard(event.request)
                self._ended_at = max(self._ended_at, event.ended)
                return self._capacity(event, asked)
            case Sample():
                self._scraped(event)
            case RunEnded():
                return self._conclude()
        return ()

    def _scraped(self, sample: Sample) -> None:
        if sample.kv_usage is not None:
            self._usage = (self._usage[0] if self._usage else sample.kv_usage, sample.kv_usage)
        if self._open or sample.running is None or sample.at - self._ended_at < self._grace:
            return
        busy = sample.running > 0 or (sample.waiting or 0) > 0
        self._busy = [*self._busy, sample][-_SCRAPES:] if busy else []

    def _conclude(self) -> tuple[Finding, ...]:
        if len(self._busy) < _SCRAPES or self._open:
            return ()
        last = self._busy[-1]
        what = (
            f"{last.at - self._ended_at:.1f} s after the last answer the server still says {last.running:g} running, "
            f"{last.waiting or 0:g} waiting{self._used()}"
        )
        return (found(NAME, Verdict.FAIL, "busy at rest", what, measured=what, limit=f"rest within {self._grace:g} s"),)

    def _used(self) -> str:
        return f", usage {self._usage[0]:.1%} at first and {self._usage[1]:.1%} now" if self._usage else ""

    def _capacity(self, exchange: Exchange, asked: RequestSent | None) -> tuple[Finding, ...]:
        if asked is None or asked.origin is not Origin.ASIDE or asked.phase != "capacity":
            return ()
        if exchange.outcome not in _FAILED:
            return ()
        what = (
            f"a prompt of {asked.tokens or 0:,} tokens, which the pool holds when it is empty, was "
            f"{exchange.outcome.value} after the traffic had ended{self._used()}"
        )
        return (found(NAME, Verdict.FAIL, "capacity lost", what, asked=asked, measured=what, limit="it is answered"),)
