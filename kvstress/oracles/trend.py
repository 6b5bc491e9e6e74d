"""TREND: does a server that runs for long become slower or worse?

Compares the time per generated token of like requests (same phase, same length within a quarter, alone on the server)
over the run, in blocks of ten; and the share of accepted drafts between scrapes. Traffic: the same kind of request
again and again, as a probe beside a soak or in any steady workload. Source: chunk times, or the whole time of answers
that were not streamed; counters of drafted and accepted tokens.

Threshold: six blocks or more, the last two twice as slow as the first two and 5 ms a token, block after block rising
(Kendall's tau 0.6); drafts: below 5 % accepted in five scrapes in a row, after 20 % or more.
Noisy when: a machine heats up or is shared; when kvstress itself stood still (the block is dropped, and if that was
often the finding is INCONCLUSIVE). Growing prompts are no like requests.
"""

import math
from collections import deque
from itertools import combinations
from statistics import median

from kvstress.core.events import Event, Lagged, RequestSent
from kvstress.core.exchange import Exchange
from kvstress.core.latency import e2e, tpot
from kvstress.core.manifest import Manifest
from kvstress.core.outcome import Outcome
from kvstress.core.plan import Origin
from kvstress.core.sample import Sample
from kvstress.core.verdict import Finding, Verdict
from kvstress.oracles.arms import Company
from kvstress.oracles.oracle import found

NAME = "TREND"

_BLOCK, _BLOCKS, _MOST, _KINDS = 10, 6, 64, 64
_TIMES, _LEAST, _TAU, _TOKENS = 2.0, 0.005, 0.6, 8
_ACCEPTED, _WAS, _SCRAPES = 0.05, 0.2, 5


class Trend:
    """Keeps at most 64 block medians for each of 64 kinds of request."""

    def __init__(self, manifest: Manifest) -> None:
        del manifest
        self._company = Company()
        self._lags: deque[Lagged] = deque(maxlen=64)
        self._kinds: dict[tuple[str, int, bool], _Blocks] = {}
        self._drafts = _Drafts()
        self._told = False

    def see(self, event: Event, asked: RequestSent | None) -> tuple[Finding, ...]:
        beside = self._company.see(event)
        if isinstance(event, Lagged):
            self._lags.append(event)
        if isinstance(event, Sample):
            return self._drafts.see(event)
        if not isinstance(event, Exchange) or asked is None or beside or self._told:
            return ()
        pace = _pace(event) if event.outcome is Outcome.COMPLETED and asked.origin is Origin.STEP else None
        if pace is None:
            return ()
        kind = (asked.phase, _size(event, asked), asked.stream)
        blocks = self._kinds.get(kind)
        if blocks is None:
            if len(self._kinds) >= _KINDS:
                return ()
            blocks = self._kinds[kind] = _Blocks()
        lagged = any(event.sent <= lag.at <= event.ended + lag.seconds for lag in self._lags)
        return self._slower(blocks, asked) if blocks.add(pace, lagged) else ()

    def _slower(self, blocks: "_Blocks", asked: RequestSent) -> tuple[Finding, ...]:
        self._told = True
        first, last = blocks.ends()
        measured = f"{first * 1000:.1f} ms a token at first, {last * 1000:.1f} ms now"
        ours = blocks.lagged * 4 > blocks.count
        why = "; kvstress itself stood still too often to say whose time it was" if ours else ""
        what = f"the same kind of request becomes slower and slower: {measured}{why}"
        verdict = Verdict.INCONCLUSIVE if ours else Verdict.FAIL
        limit = f"below {_TIMES:g} times the first"
        return (found(NAME, verdict, "slower", what, asked=asked, measured=measured, limit=limit),)


def _pace(exchange: Exchange) -> float | None:
    """Seconds a token; None for answers too short to tell."""
    tokens = exchange.usage.completion_tokens if exchange.usage else None
    if tokens is None or tokens < _TOKENS:
        return None
    return tpot(exchange) if exchange.chunk_at else e2e(exchange) / tokens


def _size(exchange: Exchange, asked: RequestSent) -> int:
    """Prompt lengths within a quarter of each other are alike."""
    counted = exchange.usage.prompt_tokens if exchange.usage else None
    return round(math.log(max(1, counted or asked.tokens or 1), 1.25))


class _Blocks:
    """Medians of ten paces each; when there are too many, neighbours become one."""

    def __init__(self) -> None:
        self.count = 0
        self.lagged = 0
        self._open: list[float] = []
        self._medians: list[float] = []

    def add(self, pace: float, lagged: bool) -> bool:
        """Count one; whether a slow-down shows now. A pace during which kvstress stood still tells nothing."""
        self.count += 1
        self.lagged += lagged
        if lagged or not math.isfinite(pace):
            return False
        self._open.append(pace)
        if len(self._open) < _BLOCK:
            return False
        self._medians.append(median(self._open))
        self._open = []
        if len(self._medians) > _MOST:
            pairs = zip(self._medians[::2], self._medians[1::2], strict=False)
            self._medians = [(one + other) / 2 for one, other in pairs]
        return self._rises()

    def ends(self) -> tuple[float, float]:
        """Pace of the first two blocks and of the last two."""
        return median(self._medians[:2]), median(self._medians[-2:])

    def _rises(self) -> bool:
        if len(self._medians) < _BLOCKS:
            return False
        first, last = self.ends()
        if last < _TIMES * first or last < first + _LEAST:
            return False
        pairs = [(later > earlier) - (later < earlier) for earlier, later in combinations(self._medians, 2)]
        return sum(pairs) >= _TAU * len(pairs)


class _Drafts:
    """The share of drafted tokens that was accepted, scrape by scrape."""

    def __init__(self) -> None:
        self._before: tuple[float, float] | None = None
        self._was = 0.0
        self._low = 0

    def see(self, sample: Sample) -> tuple[Finding, ...]:
        drafted, accepted = _total(sample, "draft", "accept"), _total(sample, "accept", "rate")
        if drafted is None or accepted is None:
            return ()
        before, self._before = self._before, (drafted, accepted)
        if before is None or drafted <= before[0]:
            return ()
        share = (accepted - before[1]) / (drafted - before[0])
        self._was = max(self._was, share)
        self._low = self._low + 1 if share < _ACCEPTED and self._was >= _WAS else 0
        if self._low != _SCRAPES:
            return ()
        what = f"drafts are no longer accepted: {share:.1%} of them, {self._was:.0%} before"
        limit = f"{_ACCEPTED:.0%} in one of {_SCRAPES} scrapes"
        return (
            found(NAME, Verdict.FAIL, "drafts refused", what, step=sample.step, measured=f"{share:.1%}", limit=limit),
        )


def _total(sample: Sample, word: str, but: str) -> float | None:
    """The counter of tokens whose name says `word`, and not `but`."""
    names = (name for name in sample.raw if "token" in name and word in name and but not in name and "total" in name)
    name = next(iter(sorted(names)), None)
    value = sample.raw[name] if name else None
    return value if value is not None and math.isfinite(value) else None
