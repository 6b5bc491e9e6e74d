"""The pool-fill step is the first one that the pool had no room for, as well as the server lets one know it.

A run that never filled the pool never put the bug's question, so the step is worth more than a
gauge at the end. An eviction that was seen is believed first, then levels that leave no room, then,
where the server shows neither, the tokens that we sent against the capacity that it names.
"""

from dataclasses import dataclass

from kvstress.core.events import Event, ServerChange, ServerEvent, StepEnded, StepStarted
from kvstress.core.plan import Origin
from kvstress.core.sample import Sample
from kvstress.core.units import show_tokens
from kvstress.core.verdict import PoolFill
from kvstress.oracles.evictions import Evictions
from kvstress.oracles.ledger import MEMORY, Answered, Ledger, restarted, totals

EVICTION, LEVEL, DERIVED = "measured-eviction", "measured-level", "derived"


@dataclass(slots=True, kw_only=True)
class _Step:
    """A step under way: the free tokens before it (None when not told), and those that it took so far."""

    free: float | None
    need: int = 0


class PoolFillFold:
    """Feed it every event in order; `fill` is where the KV pool filled, None while it did not or nothing tells."""

    def __init__(self, ledger: Ledger | None = None) -> None:
        self._ledger = ledger or Ledger()
        self._evictions = Evictions(self._ledger)
        self._found: PoolFill | None = None
        self._confirmed = ""
        self._steps: dict[int, _Step] = {}
        self._current: int | None = None
        self._forget()

    @property
    def fill(self) -> PoolFill | None:
        """The fill step with how it is known and the deciding numbers in words."""
        if self._found is None or self._found.how != DERIVED:
            return self._found
        evidence = self._found.evidence + (self._confirmed or "; no later resend has shown it yet")
        return PoolFill(step=self._found.step, how=DERIVED, evidence=evidence)

    def see(self, event: Event) -> None:
        """Take in one event; never raises."""
        if not self._settled():
            self.take(event, self._ledger.see(event))

    def take(self, event: Event, answered: Answered | None) -> None:
        """As `see`, for an event that the ledger has seen already; `answered` is what it said."""
        if self._settled():
            return
        evicted = self._evictions.see(event, answered)
        if answered is not None:
            self._answer(answered)
        elif isinstance(event, Sample):
            self._scraped(event, evicted)
        elif isinstance(event, StepStarted):
            self._begin(event.step)
        elif isinstance(event, StepEnded):
            self._steps.pop(event.step, None)
        elif isinstance(event, ServerEvent) and event.change in (ServerChange.EXITED, ServerChange.RESTARTED):
            self._forget()

    def _forget(self) -> None:
        """A server that began anew has an empty pool."""
        self._totals: dict[str, float] = {}
        self._free: float | None = None
        self._capacity: float | None = None
        self._levels = False
        self._room_seen = False
        self._sum = 0
        self._resends = 0
        self._hits = 0.0
        self._looked_up = False

    def _begin(self, step: int) -> None:
        self._current = step
        self._steps[step] = _Step(free=self._free)
        if len(self._steps) > MEMORY:
            del self._steps[next(iter(self._steps))]

    def _answer(self, answered: Answered) -> None:
        self._sum += answered.fresh
        self._resends += answered.again is not None
        self._hits += answered.hit or 0
        self._looked_up |= answered.hit is not None
        self._confirm(answered)
        if answered.origin is Origin.STEP and answered.step is not None:
            self._took(answered, answered.step)

    def _confirm(self, answered: Answered) -> None:
        """An old prompt that is cached no more confirms a derived fill."""
        first, hit, prompt = answered.again, answered.hit, answered.prompt
        if self._found is None or self._confirmed or first is None or hit is None or prompt is None:
            return
        if hit * 10 < prompt and first.step != answered.step and self._hits > 0:
            self._confirmed = (
                f"; confirmed by {answered.request}: of {show_tokens(prompt)} prompt tokens first sent in step "
                f"{first.step} only {show_tokens(hit)} were still cached"
            )

    def _took(self, answered: Answered, number: int) -> None:
        """The step's own tokens exceed the free ones; or all tokens so far the capacity: told as soon as known."""
        step = self._steps.setdefault(number, _Step(free=None))
        step.need += answered.fresh
        if step.free is not None and self._room_seen and step.need > step.free:
            free, need = show_tokens(step.free), show_tokens(step.need)
            self._set(number, LEVEL, f"{free} tokens were free before the step, which took {need} new ones")
        # Where levels are told, the pool itself says when it is full: snapshots and waste take room that no sum knows.
        if self._capacity and not self._levels and self._prompts_stay() and self._sum >= self._capacity:
            total, capacity = show_tokens(self._sum), show_tokens(self._capacity)
            self._set(number, DERIVED, f"{total} unique tokens sent and generated so far, capacity {capacity}")

    def _prompts_stay(self) -> bool:
        """A sum over prompts means something only where they stay: hits were seen, or none could have been."""
        return self._hits > 0 or (self._looked_up and self._resends == 0)

    def _rise(self, counter: str, now: float | None) -> float:
        return 0.0 if now is None else now - self._totals.get(counter, now)

    def _set(self, step: int, how: str, evidence: str) -> None:
        # A derived fill stands: an eviction that a counter shows later is not the first.
        better = self._found is not None and self._found.step == step and how == EVICTION
        if self._found is None or better:
            self._found = PoolFill(step=step, how=how, evidence=evidence)

    def _settled(self) -> bool:
        """Nothing later can change it: an eviction in the same step says more than a level, a resend confirms a sum."""
        if self._found is None or self._found.how == DERIVED:
            return False
        return self._found.how == EVICTION or self._current != self._found.step

    def _scraped(self, sample: Sample, evicted: str | None) -> None:
        if restarted(self._totals, sample):
            self._forget()
        step = sample.step if sample.step is not None else self._current
        if step is not None and evicted:
            self._set(step, EVICTION, evicted)
        elif step is not None and self._evictions.ours and self._nothing_free(sample):
            self._set(step, LEVEL, "no token of the pool was free")
        self._remember(sample)

    def _nothing_free(self, sample: Sample) -> bool:
        """No room at all. A gauge that was never otherwise says nothing."""
        full = sample.kv_free == 0 or (sample.kv_usage is not None and sample.kv_usage >= 1)
        return full and self._room_seen

    def _remember(self, sample: Sample) -> None:
        self._hits += self._rise("prefix_hits", sample.prefix_hits)
        self._looked_up |= self._rise("prefix_queries", sample.prefix_queries) > 0
        self._totals |= totals(sample)
        self._levels |= sample.kv_free is not None or sample.kv_cached is not None or sample.evictions is not None
        self._capacity = sample.kv_capacity or self._capacity
        self._room_seen |= bool(sample.kv_free) or (sample.kv_usage is not None and sample.kv_usage < 1)
        self._free = self._free if sample.kv_free is None else sample.kv_free
