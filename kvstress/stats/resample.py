"""How far a ratio may be off: runs are drawn again first, then what happened in them.

Requests of one run share a server start, a machine's mood and a cache; drawing only requests would call every
slow start of a server a regression. So an interval needs two runs a side at the least, and says so.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

DRAWS = 2_000
LEVEL = 0.95
# Values taken of one run at each draw: enough for a quantile, few enough for a million requests.
_OF_A_RUN = 500
# Numbers held at a time.
_BLOCK = 2_000_000

Runs = Sequence["NDArray[np.float64]"]
# Samples, (draws, values) or (draws, steps, 2), to a number each.
Summary = Callable[["NDArray[np.float64]"], "NDArray[np.float64]"]


def ratios(base: Runs, head: Runs, summary: Summary) -> "NDArray[np.float64]":
    """DRAWS values of head's `summary` over base's, from runs drawn with replacement and values drawn within each.

    A run is an array whose first axis is its values or steps. Draws are seeded; NaN where base's summary was 0.
    """
    import numpy as np

    draws = np.random.default_rng(0)
    below = np.concatenate([summary(block) for block in _samples(base, draws)])
    above = np.concatenate([summary(block) for block in _samples(head, draws)])
    found: NDArray[np.float64] = np.divide(above, below, out=np.full(DRAWS, np.nan), where=below > 0)
    return found


def interval(drawn: "NDArray[np.float64]") -> tuple[float, float] | None:
    """The LEVEL percentile interval (Efron) of `drawn`; None when some draw has no value."""
    import numpy as np

    if np.isnan(drawn).any():
        return None
    low, high = np.quantile(drawn, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(low), float(high)


def _samples(runs: Runs, draws: "np.random.Generator") -> "Iterator[NDArray[np.float64]]":
    """DRAWS samples in blocks: as many runs as there are, drawn with replacement, and as many values of each."""
    import numpy as np

    lengths = np.array([len(run) for run in runs])
    starts, values = np.cumsum(lengths) - lengths, np.concatenate(runs)
    each = min(_OF_A_RUN, max(1, round(float(lengths.mean()))))
    rows = max(1, _BLOCK // (len(runs) * each))
    for done in range(0, DRAWS, rows):
        size = min(rows, DRAWS - done)
        chosen = np.repeat(draws.integers(len(runs), size=(size, len(runs))), each, axis=1)
        places = starts[chosen] + (draws.random(chosen.shape) * lengths[chosen]).astype(np.intp)
        yield values[places]
