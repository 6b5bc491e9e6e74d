"""From probes to an answer that claims no more than was seen.

A boundary needs a failing and a passing value. Without the one the answer is "no failure found", without the
other "fails at every limit tried"; a server that fails, passes and fails again has no boundary, and is
told with the values that show it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise

from kvstress.search import flaky
from kvstress.search.outcome import Outcome, Seen
from kvstress.search.steady import FAILS, PASSES, REFUSED, marks


class Status(StrEnum):
    """What kind of answer it is."""

    BOUNDARY = "boundary"
    FAILS_EVERYWHERE = "fails at every limit tried"
    NO_FAILURE = "no failure found"
    SELDOM = "fails less often than asked"
    NOT_MONOTONE = "not monotone"
    NOTHING_STARTS = "refused to start at every limit tried"
    NOT_JUDGED = "not judged"
    OPEN = "not bracketed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Boundary:
    """It lies between `failing` and `passing` (indices); `confidence` is None when each value was probed once."""

    failing: int
    passing: int
    confidence: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Conclusion:
    """The answer, in indices of the grid.

    `refused_below` is the lowest value seen to start above one that refused, `refused_above` the highest below one.
    `changes` are the neighbours between which a search without repeats saw failing change to passing or back;
    `uneven` the two values, and `strength` 2 ln of the likelihood ratio, that contradict a single fall.
    """

    status: Status
    boundary: Boundary | None = None
    refused_below: int | None = None
    refused_above: int | None = None
    changes: tuple[tuple[int, int], ...] = ()
    uneven: tuple[int, int] | None = None
    strength: float | None = None


def conclude(count: int, seen: Sequence[Seen], *, repeats: int = 1, q: float = 0.5) -> Conclusion:
    """What `seen` shows about a grid of `count` values; `repeats` above 1 takes the server for a flaky one."""
    found = marks(seen)
    judged = {index: mark for index, mark in found.items() if mark in (FAILS, PASSES)}
    below, above = _starts(found)
    if not judged:
        shown = set(found.values())
        status = Status.NOTHING_STARTS if shown == {REFUSED} else Status.NOT_JUDGED
        return Conclusion(status=status, refused_below=below, refused_above=above)
    mixed = len({one.outcome.fails for one in seen if one.outcome.fails or one.outcome.passes}) > 1
    answer = _steady(judged) if repeats == 1 or not mixed else _flaky(count, seen, q)
    return Conclusion(
        status=answer.status,
        boundary=answer.boundary,
        refused_below=below,
        refused_above=above,
        changes=answer.changes,
        uneven=answer.uneven,
        strength=answer.strength,
    )


def _starts(found: dict[int, str]) -> tuple[int | None, int | None]:
    started = [index for index, mark in found.items() if mark != REFUSED]
    refused = [index for index, mark in found.items() if mark == REFUSED]
    if not started or not refused:
        return None, None
    low, high = started[0], started[-1]
    return low if refused[0] < low else None, high if refused[-1] > high else None


def _steady(judged: dict[int, str]) -> Conclusion:
    changes = tuple(pair for pair in pairwise(judged) if judged[pair[0]] != judged[pair[1]])
    if not changes:
        everywhere = set(judged.values()) == {FAILS}
        return Conclusion(status=Status.FAILS_EVERYWHERE if everywhere else Status.NO_FAILURE)
    if len(changes) > 1:
        return Conclusion(status=Status.NOT_MONOTONE, changes=changes)
    low, high = changes[0]
    failing, passing = (low, high) if judged[low] == FAILS else (high, low)
    return Conclusion(status=Status.BOUNDARY, boundary=Boundary(failing=failing, passing=passing), changes=changes)


def _flaky(count: int, seen: Sequence[Seen], q: float) -> Conclusion:
    started = flaky.started_range(count, seen)
    if started is None:
        return Conclusion(status=Status.OPEN)
    counted = flaky.tallies(started, seen)
    inverted = flaky.inversion(started, counted)
    if inverted is not None and inverted.called:
        pair = (started.outside(inverted.lower), started.outside(inverted.higher))
        return Conclusion(status=Status.NOT_MONOTONE, uneven=pair, strength=inverted.strength)
    found = flaky.posterior(started, seen, q)
    low, high = found.interval(flaky.REPORTED_MASS)
    if low >= 0 and high < started.count - 1:
        mass = float(found.boundary()[low + 1 : high + 2].sum())
        ends = (started.outside(low), started.outside(high + 1))
        return Conclusion(
            status=Status.BOUNDARY, boundary=Boundary(failing=ends[0], passing=ends[1], confidence=round(mass, 4))
        )
    if low == high:
        return Conclusion(status=Status.SELDOM if low < 0 else Status.FAILS_EVERYWHERE)
    return Conclusion(status=Status.OPEN)


def at(seen: Sequence[Seen], index: int) -> tuple[Outcome, ...]:
    """The outcomes of one value, judged ones alone if there are any."""
    there = [one.outcome for one in seen if one.cell.index == index]
    return tuple([one for one in there if one.fails or one.passes] or there)
