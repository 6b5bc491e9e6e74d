"""Where in a series of commits something changed once, if anything did.

Ranks, because a first failure may be "none in 143 steps", which is later than any number; and the largest statistic
over all places against the same of shuffled series, because looking everywhere finds something by chance.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

LEAST_EACH_SIDE = 3
SHUFFLES = 2_000
LEVEL = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangePoint:
    """Values from place `at` on differ from those before; `p` is that of the largest rank statistic over all places."""

    at: int
    p: float
    rises: bool


def change_point(values: Sequence[float]) -> ChangePoint | None:
    """The likeliest single change, when it is one at LEVEL; None in a series too short for that. `inf` is allowed."""
    import numpy as np

    if len(values) < 2 * LEAST_EACH_SIDE:
        return None
    ranks = _ranks(values)
    scores = _scores(ranks[None])[0]
    place = int(np.abs(scores).argmax())
    draws = np.random.default_rng(0)
    shuffled = np.abs(_scores(draws.permuted(np.tile(ranks, (SHUFFLES, 1)), axis=1))).max(axis=1)
    p = float((1 + (shuffled >= abs(scores[place]) - 1e-9).sum()) / (1 + SHUFFLES))
    if p >= LEVEL:
        return None
    return ChangePoint(at=place + LEAST_EACH_SIDE, p=p, rises=bool(scores[place] > 0))


def _ranks(values: Sequence[float]) -> "NDArray[np.float64]":
    """Mid-ranks, centred: ties share theirs."""
    import numpy as np

    series = np.asarray(values, dtype=float)
    below = (series[:, None] > series[None]).sum(axis=1)
    equal = (series[:, None] == series[None]).sum(axis=1)
    ranks: NDArray[np.float64] = below + (equal + 1) / 2
    ranks -= ranks.mean()
    return ranks


def _scores(ranks: "NDArray[np.float64]") -> "NDArray[np.float64]":
    """Standardised sums of the ranks after each place that leaves LEAST_EACH_SIDE on both sides, (series, places)."""
    import numpy as np

    count = ranks.shape[1]
    after = np.arange(count - LEAST_EACH_SIDE, LEAST_EACH_SIDE - 1, -1)
    sums = ranks[:, ::-1].cumsum(axis=1)[:, after - 1]
    scores: NDArray[np.float64] = sums / np.sqrt(after * (count - after) / count)
    return scores
