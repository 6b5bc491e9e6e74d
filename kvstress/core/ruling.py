"""What a CI gate says of one sentence, and of all of them.

A gate has three words and not two: met, not met, and nobody can tell. The third is no pass (a
metric without samples must not open a gate) and no failure either (it is not the commit's fault).
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum


class Ruled(IntEnum):
    """Ordered by gravity: the worst of several wins."""

    MET = 0
    CANNOT_TELL = 1
    NOT_MET = 2

    @property
    def words(self) -> str:
        """As it is printed for one sentence."""
        return self.name.replace("_", " ")

    @property
    def verdict(self) -> str:
        """As it is printed for the whole gate."""
        return {Ruled.MET: "PASS", Ruled.NOT_MET: "FAIL"}.get(self, self.words)

    @property
    def exit_code(self) -> int:
        """The exit code of `gate`."""
        return {Ruled.MET: 0, Ruled.NOT_MET: 1}.get(self, 125)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ruling:
    """One sentence judged: `said` is why; `base`, `head`, `ratio` and its 95 % `interval` where they exist."""

    sentence: str
    outcome: Ruled
    said: str
    base: float | None = None
    head: float | None = None
    ratio: float | None = None
    interval: tuple[float, float] | None = None


def worst(rulings: Iterable[Ruling]) -> Ruled:
    """The gravest of `rulings`; without any nothing was asked, and that is not a pass."""
    return max((ruling.outcome for ruling in rulings), default=Ruled.CANNOT_TELL)
