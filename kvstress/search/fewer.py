"""Leaving out what a failure does not need, one needed part at a time.

Delta debugging halves its list blindly. Here the largest leading stretch that can go is looked for by galloping and
halving; the part just behind it is needed, and the search goes on behind that. A cause of k among n parts then takes
about k log n probes, and one of n among n takes n, because the last stretch's length is the next one's first guess.
"""

from collections.abc import Awaitable, Callable, Collection, Hashable, Sequence
from typing import TypeVar

from kvstress.core.case import Case
from kvstress.search.keeper import Attempt

Part = TypeVar("Part", bound=Hashable)


async def leave_out(
    case: Case,
    still: Attempt,
    parts: Callable[[Case], Sequence[Part]],
    without: Callable[[Case, Collection[Part]], Case],
) -> Case:
    """`case` without every one of its `parts` that it still fails without; the result lacks none that is needed.

    Exact where a case that fails also fails with more in it; else no single part can be left out of the result.
    """
    needed: set[Part] = set()
    guess: int | None = None
    # Invariant: `case` fails, and `needed` holds the parts which it was seen to pass without.
    while rest := [part for part in parts(case) if part not in needed]:
        if guess != 0 and (kept := await still(without(case, rest))) is not None:
            return kept
        case, guess = await _leading(case, still, rest, without, len(rest) // 2 if guess is None else guess)
        here = set(parts(case))
        following = next((part for part in rest[guess:] if part in here), None)
        if following is None:
            return case
        needed.add(following)
    return case


async def _leading(
    case: Case,
    still: Attempt,
    rest: Sequence[Part],
    without: Callable[[Case, Collection[Part]], Case],
    guess: int,
) -> tuple[Case, int]:
    """The case without the longest leading stretch of `rest` that can go, and the stretch's length."""
    low, stride, gallop = 0, max(1, guess), True
    high = len(rest) if guess else len(rest) + 1
    # Invariant: without rest[:low] it fails; without rest[:high] it was seen to pass, or there is no such stretch.
    while high - low > 1:
        middle = min(low + stride, high - 1) if gallop else (low + high) // 2
        kept = await still(without(case, rest[:middle]))
        if kept is None:
            high, gallop = middle, False
        else:
            case, low, stride = kept, middle, 2 * stride
    return case, low


async def each(case: Case, still: Attempt, changes: Sequence[Callable[[Case], Case]]) -> Case:
    """`case` after every one of `changes` that leaves it failing, tried in turn."""
    for change in changes:
        changed = change(case)
        if changed.digest() != case.digest():
            case = await still(changed) or case
    return case


Pass = Callable[[Case, Attempt], Awaitable[Case]]
