"""RECONCILE: do the server's books agree with what the client got?

Compares the rise of its counters (prompt tokens, generated tokens, completed requests) from the first scrape at rest to
the last with the sums of the answers that came between. Source: samples at rest (nothing open here, nothing running
there), `usage` of every answer.

Threshold: short by more than half a per cent and more than one request. A request that failed or was cancelled adds
nothing to what must be there. More than was asked is no finding: other clients, recomputation after a preemption,
aborted work and n > 1 (which counts sequences) all add.
Noisy when: books are kept by several processes and lag (the last scrape follows a nudge); when an engine leaves
cached tokens out of its prompt tokens (those dialects are not asked for them).
"""

from dataclasses import dataclass, field

from kvstress.core.events import Event, RequestSent, RunEnded
from kvstress.core.exchange import Exchange
from kvstress.core.manifest import Manifest
from kvstress.core.outcome import Outcome
from kvstress.core.sample import Sample
from kvstress.core.verdict import Finding, Verdict
from kvstress.oracles.ledger import restarted, totals
from kvstress.oracles.oracle import found

NAME = "RECONCILE"

_COUNTS_ALL_PROMPT_TOKENS = frozenset({"flare", "vllm", "llama.cpp"})
_SHARE = 0.005
_FIELDS = ("prompt_tokens", "generation_tokens", "requests_completed")


@dataclass(slots=True)
class _Book:
    """The least that a counter must have risen by; `largest` is the most that one request added."""

    least: float = 0.0
    largest: float = 0.0
    known: bool = True


@dataclass(slots=True)
class _Books:
    books: dict[str, _Book] = field(default_factory=lambda: {name: _Book() for name in _FIELDS})

    def add(self, exchange: Exchange) -> None:
        usage = exchange.usage
        counts = {
            "prompt_tokens": usage.prompt_tokens if usage else None,
            "generation_tokens": usage.completion_tokens if usage else None,
            "requests_completed": 1,
        }
        for name, count in counts.items():
            book = self.books[name]
            book.known = book.known and count is not None
            book.least += count or 0
            book.largest = max(book.largest, count or 0)


class Reconcile:
    """Keeps three sums and two scrapes."""

    def __init__(self, manifest: Manifest) -> None:
        del manifest
        self._open: set[str] = set()
        self._books = _Books()
        self._before: Sample | None = None
        self._rest: tuple[Sample, dict[str, tuple[float, float, bool]]] | None = None

    def see(self, event: Event, asked: RequestSent | None) -> tuple[Finding, ...]:
        match event:
            case RequestSent():
                self._open.add(event.request)
            case Exchange():
                self._open.discard(event.request)
                if event.outcome is Outcome.COMPLETED:
                    self._books.add(event)
            case Sample() if event.problem is None:
                self._scraped(event)
            case RunEnded():
                return self._conclude()
        return ()

    def _scraped(self, sample: Sample) -> None:
        if self._before is not None and restarted(totals(self._before), sample) and self._anew(sample):
            self._before, self._rest = None, None
        if self._open or (sample.running or 0) > 0 or (sample.waiting or 0) > 0:
            return
        if self._before is None:
            self._before, self._books, self._rest = sample, _Books(), None
            return
        sums = {name: (book.least, book.largest, book.known) for name, book in self._books.books.items()}
        self._rest = (sample, sums)

    def _anew(self, sample: Sample) -> bool:
        """A restart begins new books. One counter that fell alone is no restart (METRIC says so)."""
        was = self._before.process_started if self._before else None
        return was is None or sample.process_started is None or sample.process_started > was + 1.0

    def _conclude(self) -> tuple[Finding, ...]:
        if self._before is None or self._rest is None:
            return ()
        last, sums = self._rest
        checked = (self._short(name, self._before, last, *sums[name]) for name in _FIELDS)
        return tuple(finding for finding in checked if finding is not None)

    def _short(
        self, name: str, before: Sample, last: Sample, least: float, largest: float, known: bool
    ) -> Finding | None:
        start, end = getattr(before, name), getattr(last, name)
        if start is None or end is None or not known or not least:
            return None
        if name == "prompt_tokens" and last.dialect not in _COUNTS_ALL_PROMPT_TOKENS:
            return None
        rose = end - start
        if least - rose <= max(least * _SHARE, largest):
            return None
        what = f"{name} rose by {rose:,.0f} while answers with {least:,.0f} came"
        limit = f"at least {least - max(least * _SHARE, largest):,.0f}"
        return found(NAME, Verdict.FAIL, name, f"the server's books are short: {what}", measured=what, limit=limit)
