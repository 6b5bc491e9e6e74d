"""What a comparison knows of one run, and the words it answers in."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from kvstress.stats.survival import Time


class Change(StrEnum):
    """The head against the base."""

    REGRESSED = "REGRESSED"
    IMPROVED = "IMPROVED"
    UNCHANGED = "UNCHANGED"
    CANNOT_TELL = "CANNOT TELL"


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """One run. None: not observed.

    `first` counts steps from the start, `fill` is the step at which the pool was full, `capacity` is in tokens;
    `errors` requests of `requests` failed, broke or were lost. `signatures` are those of failing findings. `samples`
    maps a timing ("warm TTFT") to its values in seconds; `pace` is (tokens generated, seconds) of each step, `batches`
    the same of each batch by its label, in runs that measure tokens a second by how many are sent at once.
    """

    run: str
    first: Time | None
    signature: str | None = None
    fill: float | None = None
    capacity: float | None = None
    errors: int = 0
    requests: int = 0
    signatures: frozenset[str] = frozenset()
    samples: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    pace: tuple[tuple[float, float], ...] = ()
    batches: Mapping[str, tuple[tuple[float, float], ...]] = field(default_factory=dict)

    @property
    def from_fill(self) -> Time | None:
        """Steps from pool fill to the first failure; None where the pool was not seen to fill before it."""
        if self.first is None or self.fill is None or self.first.steps < self.fill:
            return None
        return Time(steps=self.first.steps - self.fill, failed=self.first.failed)


Side = tuple[Facts, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One question. `base` and `head` are in words; `interval` is the 95 % one of `ratio` (head over base).

    `p` is Holm-adjusted over all rows. `decides`: the whole comparison's verdict may come from this row.
    """

    metric: str
    base: str
    head: str
    verdict: Change
    said: str
    ratio: float | None = None
    interval: tuple[float, float] | None = None
    p: float | None = None
    decides: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """All rows, the primary one first, and what they come to."""

    verdict: Change
    said: str
    rows: tuple[Row, ...]
