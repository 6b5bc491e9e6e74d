"""A series of any length in bounded room, without losing its extremes.

Keeping every n-th point would drop exactly the spike that a reader looks for. Here the prompts
are cut into stretches, and of each stretch the lowest and the highest value survive; when there
are too many stretches, neighbours merge and the stretch doubles.
"""

from dataclasses import dataclass, field

STRETCHES = 240

Point = tuple[int, float]


@dataclass(slots=True)
class Thinned:
    """Points (prompt, value). `width` is how many prompts a stretch spans; at 1 nothing was left off."""

    width: int = 1
    _lows: dict[int, Point] = field(default_factory=dict)
    _highs: dict[int, Point] = field(default_factory=dict)

    def add(self, step: int, value: float) -> None:
        """Take one more point; memory stays bounded."""
        stretch = step // self.width
        low = self._lows.get(stretch)
        if low is None:
            self._lows[stretch] = self._highs[stretch] = (step, value)
            # One outlying step number must not make the loop run on: each round halves the stretches' numbers.
            while len(self._lows) > STRETCHES:
                self._merge()
        elif value < low[1]:
            self._lows[stretch] = (step, value)
        elif value > self._highs[stretch][1]:
            self._highs[stretch] = (step, value)

    def _merge(self) -> None:
        self.width *= 2
        lows, highs = list(self._lows.values()), list(self._highs.values())
        self._lows, self._highs = {}, {}
        for point in sorted(lows, key=lambda p: p[1]):
            self._lows.setdefault(point[0] // self.width, point)
        for point in sorted(highs, key=lambda p: -p[1]):
            self._highs.setdefault(point[0] // self.width, point)

    def points(self) -> list[Point]:
        """What is left, in the order of prompts."""
        return sorted({*self._lows.values(), *self._highs.values()})
