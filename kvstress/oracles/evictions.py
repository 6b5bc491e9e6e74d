"""When did the server put something out of its KV pool? Counters say so; where there are none, levels at rest do.

Scrapes come after steps, when every request has ended, so the plain reading of "cached tokens fell"
is wrong: a request that still holds a cached prefix makes it fall too. Each rule below names what makes
it sound. All of them miss evictions; none should see one that was not.
"""

from dataclasses import dataclass, field

from kvstress.core.events import Event, RequestSent, ServerChange, ServerEvent
from kvstress.core.outcome import Outcome
from kvstress.core.plan import Origin
from kvstress.core.sample import Sample
from kvstress.core.units import show_tokens
from kvstress.oracles.ledger import MEMORY, Answered, Ledger, restarted, totals

# Two pages of 128 tokens: what partly filled last pages and speculative rollback can move by themselves.
_SLACK = 256
# A server gives pages back a moment after the client saw the answer's end, and much later after an abort.
_RELEASE, _ABORT_RELEASE = 5.0, 60.0
_BOUNDARY = frozenset({"start", "step", "end"})


@dataclass(slots=True, kw_only=True)
class _Window:
    """The traffic between two scrapes at which nothing was in flight.

    `kept`: tokens per prompt that was first sent in the window and then answered out of the cache, hence in the pool.
    `largest`: the most new tokens that one completed request took.
    """

    opened: Sample | None = None
    completed: int = 0
    largest: int = 0
    old_prefixes: bool = False
    disturbed: bool = False
    kept: dict[str, int] = field(default_factory=dict)
    first: set[str] = field(default_factory=set)


class Evictions:
    """Feed it every event that `ledger` has seen; `ours` is true while step requests explain what happens."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self.ours = False
        self._forget()

    def see(self, event: Event, answered: Answered | None) -> str | None:
        """Take in one event; the evidence, in words, when it shows that something was put out for step requests."""
        if answered is not None:
            self._answer(answered)
        elif isinstance(event, Sample):
            return self._scraped(event)
        elif isinstance(event, RequestSent):
            self._sent(event)
        elif isinstance(event, ServerEvent) and event.change in (ServerChange.EXITED, ServerChange.RESTARTED):
            self._forget()
        return None

    def _forget(self) -> None:
        """A server that began anew has an empty pool and counters at 0."""
        self._totals: dict[str, float] = {}
        self._last: Sample | None = None
        self._released = 0.0
        self._ended_since = False
        self._window = _Window()

    def _sent(self, sent: RequestSent) -> None:
        stepping = any(other.origin is Origin.STEP for other in self._ledger.open.values())
        self.ours = sent.origin is Origin.STEP or stepping
        flushes = "reset" in sent.endpoint or "flush" in sent.endpoint
        self._window.disturbed |= flushes or sent.origin is Origin.ASIDE

    def _answer(self, answered: Answered) -> None:
        delay = _RELEASE if answered.outcome is Outcome.COMPLETED else _ABORT_RELEASE
        self._released = max(self._released, answered.ended + delay)
        self._ended_since = True
        window = self._window
        window.disturbed |= answered.outcome not in (Outcome.COMPLETED, Outcome.REFUSED) or len(window.first) >= MEMORY
        if window.opened is None or window.disturbed:
            # It will show nothing, and may never end: a server without metrics, lanes that are never all at rest.
            window.first, window.kept = set(), {}
            return
        if answered.outcome is Outcome.COMPLETED:
            window.completed += 1
            window.largest = max(window.largest, answered.fresh)
        if answered.again is None:
            window.first.add(answered.key)
        elif answered.key not in window.first:
            window.old_prefixes = True
        elif answered.hit is not None:
            window.kept[answered.key] = max(0, answered.hit - (answered.again.hit or 0))

    def _scraped(self, sample: Sample) -> str | None:
        if restarted(self._totals, sample):
            self._forget()
        seen = self._counter_rose(sample) or self._free_rose(sample) or self._window_shows(sample)
        self._totals |= totals(sample)
        if sample.kv_free is not None:
            self._last, self._ended_since = sample, False
        if self._at_rest(sample):
            self._window = _Window(opened=sample)
        return seen if self.ours else None

    def _at_rest(self, sample: Sample) -> bool:
        """Nothing in flight, at a scrape that every step has: one taken in between would split a step's sends."""
        return sample.why in _BOUNDARY and not self._ledger.open and not sample.running and sample.problem is None

    def _counter_rose(self, sample: Sample) -> str | None:
        """Rule (a): an eviction or preemption counter is above its last known value."""
        now = totals(sample)
        for name in ("evictions", "preemptions"):
            before = self._totals.get(name)
            if before is not None and now.get(name, before) > before:
                return f"{name} rose from {before:,.0f} to {now[name]:,.0f}"
        return None

    def _free_rose(self, sample: Sample) -> str | None:
        """Rule (b) under load: free rose while requests ran and none had ended, nor could a late release explain it.

        Cached tokens must have fallen with it where they are told: a snapshot that is replaced frees pages too.
        """
        before = self._last
        if before is None or before.kv_free is None or sample.kv_free is None or not self._ledger.open:
            return None
        rise = sample.kv_free - before.kv_free
        if self._ended_since or before.at < self._released or rise <= 4 * _SLACK:
            return None
        if (
            before.kv_cached is not None
            and sample.kv_cached is not None
            and before.kv_cached - sample.kv_cached < rise / 2
        ):
            return None
        freed = f"{show_tokens(before.kv_free)} to {show_tokens(sample.kv_free)}"
        return f"free tokens rose from {freed} while no request ended"

    def _window_shows(self, sample: Sample) -> str | None:
        """Rule (b) between two scrapes at rest."""
        window, before = self._window, self._window.opened
        if before is None or window.disturbed or not window.completed or not self._at_rest(sample):
            return None
        return self._cached_fell(before, sample) or self._room_appeared(before, sample) or self._made_room(before)

    def _cached_fell(self, before: Sample, sample: Sample) -> str | None:
        """Completed prompts only add to the cache, unless an old prefix is still held and so is not counted."""
        if before.kv_cached is None or sample.kv_cached is None:
            return None
        if self._window.old_prefixes and sample.running is None:
            return None
        if before.kv_cached - sample.kv_cached <= _SLACK:
            return None
        return f"cached tokens fell from {show_tokens(before.kv_cached)} to {show_tokens(sample.kv_cached)} at rest"

    def _room_appeared(self, before: Sample, sample: Sample) -> str | None:
        """New prompts that answered from the cache are in the pool; if free fell by less, something else was put out.

        Unlike the cached gauge, free does not depend on when the server lets go of the last request's pages.
        """
        kept = sum(self._window.kept.values())
        if before.kv_free is None or sample.kv_free is None or kept == 0:
            return None
        taken = before.kv_free - sample.kv_free
        if kept - taken <= max(_SLACK, 0.02 * kept):
            return None
        moved = f"free fell by {show_tokens(taken)}" if taken >= 0 else f"free rose by {show_tokens(-taken)}"
        return f"{show_tokens(kept)} new tokens were cached but {moved}: others were put out"

    def _made_room(self, before: Sample) -> str | None:
        """A request's tokens are all in the pool while it runs; where more were new than free, room was made."""
        free, taken = before.kv_free, self._window.largest
        # A level that reads 0 at rest may be a gauge that nobody sets.
        if not free or taken <= free:
            return None
        return f"one request took {show_tokens(taken)} new tokens where {show_tokens(free)} were free"
