"""A green run means something only if what its workload is about really happened; this fold says whether it did.

Three answers, because two would lie: reached, not reached though this server would have shown it, and
None where nothing that it reports or exports could tell.
"""

import re
from collections import deque

from kvstress.core.events import Event
from kvstress.core.exchange import Exchange
from kvstress.core.latency import e2e, ttft
from kvstress.core.outcome import Outcome
from kvstress.core.plan import Origin
from kvstress.core.sample import Sample
from kvstress.core.verdict import PoolFill
from kvstress.oracles.evictions import Evictions
from kvstress.oracles.ledger import Answered, Ledger, restarted, totals

# A hit counts from a tenth of the prompt on: blocks of a shared chat template, or one BOS token, hit for everybody.
_SHARE = 10
_FULL = 0.95
_FASTER, _FASTER_TIMES, _WARM_UP = 0.5, 3, 2

ABORTS = re.compile(r'abort|disconnected_clients|requests_cancelled|error_type="cancelled"')
DRAFTS = re.compile(r"draft(ed)?_tokens_total|num_drafts_total|spec_accept_(length|rate)")
TIERS = re.compile(
    r'prompt_tokens_cached_by_source_total\{source="(host|disk|p2p|external_unspecified)"'
    r'|external_prefix_cache_hits|cached_tokens_total\{cache_source="(?!device)'
    r'|cache_hit_tokens_total\{cache_tier="(?!gpu|device)|kv_cache_onboard_bytes|onboard_blocks_h2d'
)


class CoverageFold:
    """Feed it every event in order; `declared` are keys of hit, full, evicted, tier, aborted, speculating."""

    def __init__(self, declared: tuple[str, ...], ledger: Ledger | None = None) -> None:
        self._declared = declared
        self._ledger = ledger or Ledger()
        self._evictions = Evictions(self._ledger)
        self._hits = _Hits()
        self._aborts = _Aborts(self._ledger)
        self._rose: dict[str, bool] = {}
        self._last: dict[str, float] = {}
        self._raw: dict[str, float] = {}
        self._full: bool | None = None
        self._room_seen = False
        self._evicted: bool | None = None

    def reached(self, fill: PoolFill | None) -> dict[str, bool | None]:
        """Each declared key: reached, not reached, or None (not observable here); `fill` is PoolFillFold's."""
        filled = fill is not None
        put_out = fill is not None and fill.how == "measured-eviction"
        answers = {
            "hit": self._hits.reached,
            "full": True if filled else self._full,
            "evicted": True if put_out or self._hits.lost_one else _either(self._evicted, self._hits.could_lose),
            "aborted": self._aborts.reached(self._rose.get("aborts")),
            "speculating": self._rose.get("drafts"),
            "tier": self._rose.get("tiers"),
        }
        return {key: answers.get(key) for key in self._declared}

    def see(self, event: Event) -> None:
        """Take in one event; never raises."""
        self.take(event, self._ledger.see(event))

    def take(self, event: Event, answered: Answered | None) -> None:
        """As `see`, for an event that the ledger has seen already; `answered` is what it said."""
        if self._evictions.see(event, answered):
            self._evicted = True
        if answered is not None and isinstance(event, Exchange):
            self._hits.answered(answered, event)
            self._aborts.answered(answered)
        elif isinstance(event, Sample):
            self._scraped(event)

    def _scraped(self, sample: Sample) -> None:
        if restarted(self._last, sample):
            self._last, self._raw = {}, {}
        self._hits.scraped(self._last, sample)
        self._aborts.scraped(sample)
        self._levels(sample)
        self._counters(sample)
        self._last |= totals(sample)

    def _levels(self, sample: Sample) -> None:
        told = (sample.kv_capacity, sample.kv_free, sample.kv_usage, sample.evictions)
        if any(value is not None for value in told):
            self._full = self._full or False
        rose = sample.preemptions is not None and sample.preemptions > self._last.get("preemptions", sample.preemptions)
        level = sample.kv_usage is not None and sample.kv_usage >= _FULL
        if rose or (self._evictions.ours and level and self._room_seen):
            self._full = True
        # A pool that was full before this run began was filled by somebody else.
        self._room_seen |= sample.kv_usage is not None and not level
        if any(value is not None for value in (sample.evictions, sample.kv_cached, sample.kv_free)):
            self._evicted = self._evicted or False

    def _counters(self, sample: Sample) -> None:
        """Engine's own counters by what their names say. A level (an accept rate) counts when it is above 0."""
        for key, pattern in (("aborts", ABORTS), ("drafts", DRAFTS), ("tiers", TIERS)):
            for name in filter(pattern.search, sample.raw):
                value = sample.raw[name]
                before = 0.0 if "spec_accept" in name else self._raw.get(name, value)
                self._rose[key] = self._rose.get(key, False) or value > before
        self._raw |= sample.raw


def _either(*answers: bool | None) -> bool | None:
    told = [answer for answer in answers if answer is not None]
    return any(told) if told else None


class _Hits:
    """Was anything answered out of the cache, and was something lost that had been in it?"""

    def __init__(self) -> None:
        self.reached: bool | None = None
        self.lost_one = False
        self.could_lose: bool | None = None
        self._smallest: int | None = None
        self._cold: deque[tuple[int, float]] = deque(maxlen=64)
        self._firsts = 0
        self._faster = 0

    def answered(self, answered: Answered, exchange: Exchange) -> None:
        if answered.origin is not Origin.STEP or answered.outcome is not Outcome.COMPLETED or not answered.prompt:
            return
        if answered.hit is not None:
            self._reported(answered, answered.hit, answered.prompt)
        else:
            self._timed(answered, exchange, answered.prompt)

    def _reported(self, answered: Answered, hit: int, prompt: int) -> None:
        self.reached = self.reached or False
        if hit > 1 and hit * _SHARE >= prompt:
            self.reached = True
            self._smallest = min(self._smallest or prompt, prompt)
        elif answered.again is not None and answered.again.step != answered.step:
            # Below one block nothing ever hits, so only prompts at least as long as one that did can be lost.
            self.lost_one |= self._smallest is not None and prompt >= self._smallest
        if answered.again is not None and answered.again.step != answered.step:
            self.could_lose = self.could_lose or False

    def _timed(self, answered: Answered, exchange: Exchange, prompt: int) -> None:
        """Nothing is reported: a resend that starts in half the time of other prompts of its length was a hit.

        An answer that was not streamed took at least as long as its first token, and a cold one of a single token
        hardly longer. The first prompts are no control: their time holds compilation. Slower resends prove nothing.
        """
        first_token = ttft(exchange)
        if answered.again is None:
            self._firsts += 1
            cold = e2e(exchange) if first_token is None and answered.max_tokens == 1 else first_token
            if self._firsts > _WARM_UP and cold is not None:
                self._cold.append((prompt, cold))
            return
        controls = [cold for size, cold in self._cold if 0.9 * prompt < size <= 1.02 * prompt]
        warm = e2e(exchange) if first_token is None else first_token
        self._faster += bool(controls) and warm < _FASTER * min(controls)
        self.reached = True if self._faster >= _FASTER_TIMES else self.reached

    def scraped(self, before: dict[str, float], sample: Sample) -> None:
        if sample.prefix_hits is None:
            return
        self.reached = self.reached or False
        hits = sample.prefix_hits - before.get("prefix_hits", sample.prefix_hits)
        asked = None if sample.prefix_queries is None else sample.prefix_queries - before.get("prefix_queries", 0.0)
        if hits > 1 and (asked is None or hits * _SHARE >= asked):
            self.reached = True


class _Aborts:
    """Did requests that we cancelled stop on the server too?

    An abort counter that rises says so. One that stays says nothing (vLLM's does not count clients that hang up). Then:
    between two scrapes at rest (the server says that nothing runs) the server generated less than the cancelled
    requests would have, had they run to their ends.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._cancelled = False
        self._stopped: bool | None = None
        self._rest: float | None = None
        self._finished = 0
        self._cut: int | None = 0

    def reached(self, counted: bool | None) -> bool | None:
        if not self._cancelled:
            return False
        return _either(counted, self._stopped)

    def answered(self, answered: Answered) -> None:
        if answered.outcome is Outcome.CANCELLED:
            self._cancelled = True
            capped = answered.max_tokens is not None and self._cut is not None
            self._cut = (self._cut or 0) + (answered.max_tokens or 0) if capped else None
        else:
            self._finished += answered.generated or 0

    def scraped(self, sample: Sample) -> None:
        if self._ledger.open or sample.running != 0 or sample.generation_tokens is None:
            return
        if self._rest is not None and self._cut:
            generated = sample.generation_tokens - self._rest - self._finished
            self._stopped = self._stopped or 0 <= generated < self._cut
        self._rest, self._finished, self._cut = sample.generation_tokens, 0, 0
