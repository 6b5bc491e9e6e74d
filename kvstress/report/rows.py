"""What the page keeps of a run: a few records per step, and only of steps that a reader would look up.

A table of a hundred thousand rows is read by nobody and opens in no browser; the first, the
last, the failing ones and those around the fill and the failure are what is asked for.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from kvstress.core.events import RequestSent
from kvstress.core.exchange import Exchange
from kvstress.core.sample import Sample

T = TypeVar("T")

HEAD_ROWS = 120
TAIL_ROWS = 120
NEAR_ROWS = 12
FAILED_ROWS = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Send:
    """One request beside what came of it; `exchange` is None when the run ended before the answer did."""

    sent: RequestSent
    exchange: Exchange | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRow:
    """One step as the table shows it; `seconds` is None when the step never ended."""

    step: int
    label: str
    sends: tuple[Send, ...]
    seconds: float | None
    sample: Sample | None

    @property
    def failed(self) -> bool:
        """True when some request of the step was not completed."""
        return any(send.exchange is None or send.exchange.outcome != "completed" for send in self.sends)


@dataclass(slots=True)
class StepRows:
    """The rows worth showing of any number of steps: the first, the last, the failing, and those around `landmarks`."""

    landmarks: tuple[int, ...]
    total: int = 0
    _kept: dict[int, StepRow] = field(default_factory=dict)
    _last: deque[StepRow] = field(default_factory=lambda: deque(maxlen=TAIL_ROWS))
    _failed: int = 0

    def add(self, row: StepRow) -> None:
        """Take the next step; memory stays bounded."""
        self.total += 1
        self._last.append(row)
        near = any(abs(row.step - landmark) <= NEAR_ROWS for landmark in self.landmarks)
        failed = row.failed and self._failed < FAILED_ROWS
        self._failed += failed
        if near or failed or self.total <= HEAD_ROWS:
            self._kept[row.step] = row

    def __iter__(self) -> Iterator[StepRow]:
        rows = self._kept | {row.step: row for row in self._last}
        return iter([rows[step] for step in sorted(rows)])


@dataclass(slots=True)
class Capped(Generic[T]):
    """The first `room` items of a list and how many there were."""

    room: int
    items: list[T] = field(default_factory=list)
    total: int = 0

    def add(self, item: T) -> None:
        """Keep the item while there is room, count it in any case."""
        self.total += 1
        if len(self.items) < self.room:
            self.items.append(item)

    @property
    def left_off(self) -> int:
        """How many items were not kept."""
        return self.total - len(self.items)
