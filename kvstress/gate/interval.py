"""How far a ratio of two quantiles, or of two paces, may be off: a percentile bootstrap with fixed draws.

A limit on a ratio means nothing without it: the 95th percentile of 40 requests moves by a tenth when
nothing has changed. The draws are seeded, so that a gate judged twice says the same twice.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

RESAMPLES = 2_000
LEVEL = 0.95
STEPS = 8
# Resamples are drawn in blocks of about so many values: all at once would be hundreds of megabytes.
_BLOCK = 1_000_000


def ratio_interval(base: Sequence[float], head: Sequence[float], q: float) -> tuple[float, float] | None:
    """The LEVEL interval of head's `q` quantile over base's (Efron's percentile method); None without samples.

    It is over requests: what differs from one start of a server to the next is in it only as far as
    both sides hold several runs. None too where base's quantile may be 0.
    """
    if not base or not head:
        return None
    import numpy as np

    draws = np.random.default_rng(0)
    below = _resampled(np.asarray(base, dtype=float), q, draws)
    above = _resampled(np.asarray(head, dtype=float), q, draws)
    if float(below.min()) <= 0.0:
        return None
    low, high = np.quantile(above / below, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(low), float(high)


def pace_interval(
    base: Sequence[tuple[float, float]], head: Sequence[tuple[float, float]]
) -> tuple[float, float] | None:
    """The LEVEL interval of head's tokens a second over base's, steps resampled; None with fewer than STEPS a side.

    Each side is what all its steps generated over the time that all took, so that long steps count as such.
    """
    if min(len(base), len(head)) < STEPS:
        return None
    import numpy as np

    draws = np.random.default_rng(0)
    below, above = _resampled_pace(base, draws), _resampled_pace(head, draws)
    if float(below.min()) <= 0.0:
        return None
    low, high = np.quantile(above / below, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(low), float(high)


def _resampled_pace(steps: Sequence[tuple[float, float]], draws: "np.random.Generator") -> "NDArray[np.float64]":
    """Tokens a second of each of RESAMPLES samples with replacement."""
    import numpy as np

    values = np.asarray(steps, dtype=float)
    rows = max(1, _BLOCK // len(values))
    blocks = []
    for done in range(0, RESAMPLES, rows):
        chosen = values[draws.integers(len(values), size=(min(rows, RESAMPLES - done), len(values)))].sum(axis=1)
        blocks.append(chosen[:, 0] / chosen[:, 1])
    return np.concatenate(blocks)


def _resampled(values: "NDArray[np.float64]", q: float, draws: "np.random.Generator") -> "NDArray[np.float64]":
    """The `q` quantile of each of RESAMPLES samples with replacement."""
    import numpy as np

    rows = max(1, _BLOCK // len(values))
    blocks = [
        np.quantile(draws.choice(values, size=(min(rows, RESAMPLES - done), len(values))), q, axis=1)
        for done in range(0, RESAMPLES, rows)
    ]
    return np.concatenate(blocks)
