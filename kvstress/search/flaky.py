"""Probabilistic bisection for servers that fail only sometimes: probe where the answer tells most, until sure enough.

Repeating plain bisection spends as many probes where the answer is plain as where it is not. Here
each probe goes to the value that is expected to say most about boundary(q) under all that was seen.
Once the interval is narrow, the widest unseen stretches are looked into and inversions are followed up, because the
posterior assumes one fall of the failing probability, and a server that has two must be found out.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

from kvstress.search.monotone import WORTH_A_LOOK, Inversion, Tally, strongest
from kvstress.search.outcome import Cell, Seen, Showing, again, repeats
from kvstress.search.posterior import Posterior, prior

REPORTED_MASS = 0.95
# Stopping as soon as 95 % are reached would report less: one lucky probe ends the search, an unlucky one does not.
_STOPPING_MASS = 0.96
_STOPPING_WIDTH = 3
_STRETCHES = 8
_UNJUDGED_TRIES = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """The values that start: from `low` to `high`; `mirrored` when failures lie at the high end."""

    low: int
    high: int
    mirrored: bool

    @property
    def count(self) -> int:
        return self.high - self.low + 1

    def inside(self, index: int) -> int:
        """Grid index → place in the range, counted from the failing side; it is its own inverse with `outside`."""
        return self.high - index if self.mirrored else index - self.low

    def outside(self, place: int) -> int:
        """Place in the range → grid index."""
        return self.high - place if self.mirrored else self.low + place


def next_cells(count: int, seen: Sequence[Seen], *, q: float, most: int) -> tuple[Cell, ...]:
    """The probes to make next, each value at most `most` times. Empty when the search is over."""
    first = [index for index in (0, count - 1) if not repeats(seen, index)]
    if first:
        return tuple(again(seen, index) for index in first)
    started = started_range(count, seen)
    index = _refusal_middle(count, seen) if started is None else _telling(started, seen, q, most)
    return () if index is None else (again(seen, index),)


def _refusal_middle(count: int, seen: Sequence[Seen]) -> int | None:
    """Where to halve between a refusal to start and a start; None when nothing started."""
    refused = _refused(seen)
    known = sorted({one.cell.index for one in seen})
    if len(refused) == len(known):
        return next((i for i in (count // 2, count // 4, 3 * count // 4) if i not in known), None)
    # Invariant: of each such pair one was seen to refuse and the other to start.
    return next(((a + b) // 2 for a, b in pairwise(known) if (a in refused) != (b in refused) and b - a > 1), None)


def _refused(seen: Sequence[Seen]) -> set[int]:
    kinds: dict[int, set[Showing]] = {}
    for one in seen:
        kinds.setdefault(one.cell.index, set()).add(one.outcome.showing)
    return {index for index, shown in kinds.items() if shown == {Showing.REFUSED}}


def started_range(count: int, seen: Sequence[Seen]) -> Range | None:
    """The range in which the server starts, once its ends are known to one value; None before, or when it is empty."""
    refused = _refused(seen)
    known = sorted({one.cell.index for one in seen})
    started = [index for index in known if index not in refused]
    if not started:
        return None
    low, high = started[0], started[-1]
    open_ends = (low > 0 and low - 1 not in refused, high < count - 1 and high + 1 not in refused)
    if any(open_ends):
        return None
    rates = [_rate(tally) for tally in (tallies_at(seen, low), tallies_at(seen, high))]
    return Range(low=low, high=high, mirrored=rates[1] > rates[0])


def tallies_at(seen: Sequence[Seen], index: int) -> Tally:
    """How often `index` failed, of how many judged probes."""
    judged = [
        one.outcome.fails for one in seen if one.cell.index == index and (one.outcome.fails or one.outcome.passes)
    ]
    return sum(judged), len(judged)


def _rate(tally: Tally) -> float:
    return tally[0] / tally[1] if tally[1] else 0.0


def tallies(started: Range, seen: Sequence[Seen]) -> dict[int, Tally]:
    """Failures and judged probes by place in the range; places that were only unjudged are left out."""
    indices = sorted({one.cell.index for one in seen if started.low <= one.cell.index <= started.high})
    found = {started.inside(index): tallies_at(seen, index) for index in indices}
    return {place: tally for place, tally in sorted(found.items()) if tally[1]}


def posterior(started: Range, seen: Sequence[Seen], q: float) -> Posterior:
    """What the judged probes say about boundary(q), in places of the range."""
    return _posterior(started.count, tuple(tallies(started, seen).items()), q)


@lru_cache(maxsize=64)
def _posterior(count: int, tallied: tuple[tuple[int, Tally], ...], q: float) -> Posterior:
    found = prior(count, q)
    for place, (fails, probes) in tallied:
        found = found.after(place, fails, probes)
    return found


def _telling(started: Range, seen: Sequence[Seen], q: float, most: int) -> int | None:
    counted = tallies(started, seen)
    spent = {place for place in range(started.count) if repeats(seen, started.outside(place)) >= most}
    mute = spent | _unjudged(started, seen)
    found = posterior(started, seen, q)
    place = None if _sure_enough(started, counted, found) else found.most_telling(mute)
    if place is None:
        place = _unseen(started, counted, mute)
    if place is None:
        place = _follow_up(inversion(started, counted), counted, mute)
    return None if place is None else started.outside(place)


def _sure_enough(started: Range, counted: dict[int, Tally], found: Posterior) -> bool:
    """Whether the interval is narrow, and does not leave open whether there is a boundary in the range at all."""
    low, high = found.interval(_STOPPING_MASS)
    mixed = 0 < sum(failed for failed, _ in counted.values()) < sum(probes for _, probes in counted.values())
    at_an_edge = low != high and (low < 0 or high == started.count - 1)
    return high - low <= _STOPPING_WIDTH and not (mixed and at_an_edge)


def _unjudged(started: Range, seen: Sequence[Seen]) -> set[int]:
    inside = {one.cell.index for one in seen if started.low <= one.cell.index <= started.high}
    silent = [index for index in inside if not tallies_at(seen, index)[1] and repeats(seen, index) >= _UNJUDGED_TRIES]
    return {started.inside(index) for index in silent}


def _unseen(started: Range, counted: dict[int, Tally], mute: set[int]) -> int | None:
    """The middle of the widest stretch without a probe, as long as one is wider than an eighth of the range."""
    known = sorted({*counted, *mute})
    low, high = max(pairwise(known), key=lambda pair: pair[1] - pair[0], default=(0, 0))
    return (low + high) // 2 if high - low > max(2, started.count // _STRETCHES) else None


def inversion(started: Range, counted: dict[int, Tally]) -> Inversion | None:
    """The strongest evidence against a single fall; neighbours near the boundary invert by luck, so those far apart."""
    return strongest(counted, apart=max(1, started.count // _STRETCHES))


def _follow_up(found: Inversion | None, counted: dict[int, Tally], mute: set[int]) -> int | None:
    """Which of an inversion's two values to probe again; None when it is settled either way."""
    if found is None or found.called or found.strength < WORTH_A_LOOK:
        return None
    left = [place for place in (found.lower, found.higher) if place not in mute]
    return min(left, key=lambda place: counted[place][1], default=None)
