"""How far a ratio may be off: runs are drawn again first, then what happened in them.

Requests of one run share a server start, a machine's mood and a cache; drawing only requests would call every
slow start of a server a regression. So an interval needs two runs a side at the least, and says so.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

DRAWS = 2_000
LEVEL = 0.95
# Values taken of one run at each draw: enough for a quantile, few enough for a million requests.
_OF_A_RUN = 500

Runs = Sequence["NDArray[np.float64]"]
Summary = Callable[["NDArray[np.float64]"], float]


def ratios(base: Runs, head: Runs, summary: Summary) -> "NDArray[np.float64]":
    """DRAWS values of head's `summary` over base's, from runs drawn with replacement and values drawn within each.

    A run is an array whose first axis is its values or steps. Draws are seeded; NaN where base's summary was 0.
    """
    import numpy as np

    draws = np.random.default_rng(0)
    below = np.array([summary(_drawn(base, draws)) for _ in range(DRAWS)])
    above = np.array([summary(_drawn(head, draws)) for _ in range(DRAWS)])
    found: NDArray[np.float64] = np.divide(above, below, out=np.full(DRAWS, np.nan), where=below > 0)
    return found


def interval(drawn: "NDArray[np.float64]") -> tuple[float, float] | None:
    """The LEVEL percentile interval (Efron) of `drawn`; None when some draw has no value."""
    import numpy as np

    if np.isnan(drawn).any():
        return None
    low, high = np.quantile(drawn, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(low), float(high)


def _drawn(runs: Runs, draws: "np.random.Generator") -> "NDArray[np.float64]":
    import numpy as np

    chosen = [runs[place] for place in draws.integers(len(runs), size=len(runs))]
    return np.concatenate([run[draws.integers(len(run), size=min(len(run), _OF_A_RUN))] for run in chosen])
