"""Bisection for servers that do the same thing each time, over regions that differ in what they show.

The ends come first. Where they differ, the range between is halved until the two sides are
neighbours; a refusal to start is a region of its own, so one search may follow two boundaries. Where
the ends agree there is nothing to halve: a few points between them are looked at, and no boundary is made up.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise

from kvstress.search.outcome import Cell, Seen, Showing, again, repeats

_BETWEEN = (2, 1, 3)  # quarters of the range, the middle first
_UNJUDGED_TRIES = 2
_UNJUDGED_IN_A_ROW = 3

Mark = str
FAILS, PASSES, REFUSED, UNJUDGED = "fails", "passes", "refused", "unjudged"
_MARK_OF = {Showing.FAILS: FAILS, Showing.REFUSED: REFUSED, Showing.UNJUDGED: UNJUDGED}


def marks(seen: Sequence[Seen]) -> dict[int, Mark]:
    """What each probed index showed, by index; a failure outweighs a pass, any judgement outweighs none."""
    rank = (UNJUDGED, REFUSED, PASSES, FAILS)
    found: dict[int, Mark] = {}
    for one in seen:
        mark = _MARK_OF.get(one.outcome.showing, PASSES)
        index = one.cell.index
        found[index] = max(found.get(index, mark), mark, key=rank.index)
    return dict(sorted(found.items()))


def next_cells(count: int, seen: Sequence[Seen]) -> tuple[Cell, ...]:
    """The probes to make next on a grid of `count` values; several only when they do not depend on one another.

    Empty when the search is over.
    """
    found = marks(seen)
    first = [index for index in (0, count - 1) if index not in found]
    once_more = [index for index in found if found[index] == UNJUDGED and repeats(seen, index) < _UNJUDGED_TRIES]
    if first or once_more:
        return tuple(again(seen, index) for index in (*first, *once_more))
    middle = next(_middles(found), None)
    if middle is None and len(shown := set(found.values()) - {UNJUDGED}) == 1:
        # A command that cannot start takes its whole time-out to say so each time: one look between is enough.
        quarters = _BETWEEN[:1] if shown == {REFUSED} else _BETWEEN
        middle = next((i for i in (quarter * (count - 1) // 4 for quarter in quarters) if i not in found), None)
    if middle is None and len(found) < worst_case(count)[0]:
        middle = _just_beyond(found, count)
    return () if middle is None else (again(seen, middle),)


def _just_beyond(found: dict[int, Mark], count: int) -> int | None:
    """The untried neighbour of the passing value: a ragged edge is seen there first, and a probe may be left for it."""
    for low, high in _brackets(found):
        if {found[low], found[high]} == {FAILS, PASSES}:
            beyond = high + 1 if found[high] == PASSES else low - 1
            if 0 <= beyond < count and beyond not in found:
                return beyond
    return None


def _middles(found: dict[int, Mark]) -> Iterator[int]:
    """Where to look next between two neighbours that differ, failures against passes first."""
    brackets = list(_brackets(found))
    for wanted in ({FAILS, PASSES}, {REFUSED, PASSES}, {REFUSED, FAILS}, {UNJUDGED, PASSES}):
        for low, high in brackets:
            # Invariant: `low` was seen to show one of the two and `high` the other; the change lies between them.
            if {found[low], found[high]} == wanted and (middle := _untried(low, high, found)) is not None:
                yield middle


def _brackets(found: dict[int, Mark]) -> Iterator[tuple[int, int]]:
    """Pairs of judged neighbours; what could not be judged counts only at an end, where nothing lies beyond it."""
    ends = (min(found), max(found))
    kept = [index for index, mark in found.items() if mark != UNJUDGED or index in ends]
    # A run of unjudged values at an end is one region; its innermost value is the one to halve from.
    inner = [index for index in found if found[index] == UNJUDGED and index not in ends]
    for low, high in pairwise(kept):
        between = [index for index in inner if low < index < high]
        if found[low] == UNJUDGED and between:
            low = max(between)
        elif found[high] == UNJUDGED and between:
            high = min(between)
        yield low, high


def _untried(low: int, high: int, found: dict[int, Mark]) -> int | None:
    """The untried index nearest to the middle of an open range; None when there is none, or too much is unjudged."""
    between = [index for index in found if low < index < high]
    if high - low < 2 or len(between) >= _UNJUDGED_IN_A_ROW:
        return None
    middle = (low + high) // 2
    if middle not in between:
        return middle
    gaps = [(a, b) for a, b in pairwise([low, *between, high]) if b - a > 1]
    nearest = min(gaps, key=lambda gap: abs(sum(gap) - low - high), default=None)
    return None if nearest is None else sum(nearest) // 2


def left(count: int, seen: Sequence[Seen]) -> int:
    """Probes that are still needed if nothing unexpected comes: the halvings of each open bracket."""
    found = marks(seen)
    ends = sum(index not in found for index in (0, count - 1))
    if ends:
        return worst_case(count)[0] - len(found)
    open_ones = [b - a for a, b in _brackets(found) if found[a] != found[b]]
    if not open_ones:
        return max(0, min(count, 2 + len(_BETWEEN)) - len(found))
    return sum((width - 1).bit_length() for width in open_ones)


def worst_case(count: int) -> tuple[int, int]:
    """Probes at most: when every value starts and the server changes once, and when some refuse to start too."""
    halvings = max(0, (count - 2).bit_length())
    return max(2 + halvings, min(count, 2 + len(_BETWEEN))), min(count, 2 + 2 * halvings)
