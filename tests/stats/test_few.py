"""Two or three runs a side that fail on both."""

import pytest

from kvstress.stats.facts import Change, Facts, Side
from kvstress.stats.few import apart
from kvstress.stats.survival import Time


def side(*steps: int) -> Side:
    """First failures; a negative number is a run that ended there without one."""
    return tuple(Facts(run=str(step), first=Time(steps=abs(step), failed=step > 0)) for step in steps)


@pytest.mark.parametrize(
    ("base", "head", "said"),
    [
        (side(16, 17, 20), side(14, 14, 13), Change.REGRESSED),
        (side(16, 17, 20), side(14, 14, 21), Change.CANNOT_TELL),
        (side(16, 17, 20), side(15, 15, 15), Change.CANNOT_TELL),
        (side(14, 14, 13), side(16, 17, 20), Change.IMPROVED),
        (side(14, 14, 13), side(-143, -143, -143), Change.IMPROVED),
        (side(16, 17, -143), side(14, 14, 14), Change.REGRESSED),
        (side(16, 17), side(5, 5), Change.CANNOT_TELL),
        (side(16), side(5), Change.CANNOT_TELL),
    ],
)
def test_only_sides_that_lie_wholly_apart_are_called_different(base: Side, head: Side, said: Change) -> None:
    assert apart(base, head)[0] is said
