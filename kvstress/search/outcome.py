"""What one probe of a value can show: five answers, because "it did not fail" has three meanings.

A server that survived with a full pool, one whose pool never filled and one that could not be
judged all came through without a failure, and only the first is evidence. A refusal to start is
no failing prompt either: it has a region, and a boundary, of its own.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum


class Showing(StrEnum):
    """The word of an outcome, as it stands in bisect.json and in reports."""

    FAILS = "FAILS"
    SURVIVED = "SURVIVED"
    NOT_EXERCISED = "NOT EXERCISED"
    REFUSED = "REFUSED TO START"
    UNJUDGED = "UNJUDGED"


PASSING = frozenset({Showing.SURVIVED, Showing.NOT_EXERCISED})


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """One probe's answer.

    `first_failure` is the failing step (None: it did not fail, or outside any step), `exposure` the completed steps,
    `pool_fill` the step at which the pool filled (None: not seen to), `how` its source. `why` is one sentence,
    `run` the run directory's name, `launches` how often the server was started for it, `seconds` how long it all took.
    """

    showing: Showing
    first_failure: int | None = None
    exposure: int | None = None
    pool_fill: int | None = None
    how: str | None = None
    why: str = ""
    run: str = ""
    launches: int = 1
    seconds: float = 0.0

    @property
    def fails(self) -> bool:
        return self.showing is Showing.FAILS

    @property
    def passes(self) -> bool:
        return self.showing in PASSING


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """What is probed: the grid's `index`, for the `repeat`-th time (from 1)."""

    index: int
    repeat: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """A probe that was made."""

    cell: Cell
    outcome: Outcome


def repeats(seen: Sequence[Seen], index: int) -> int:
    """How often `index` has been probed."""
    return sum(one.cell.index == index for one in seen)


def again(seen: Sequence[Seen], index: int) -> Cell:
    """The next probe of `index`."""
    return Cell(index=index, repeat=repeats(seen, index) + 1)
