"""How far a ratio of two quantiles, or of two paces, may be off: a bootstrap over runs and prompts, with fixed draws.

A limit on a ratio means nothing without it: the 95th percentile of 40 requests moves by a tenth when nothing has
changed, and so may everything between two starts of a server. Both sides were sent the same prompts, so each draw
takes the same ones from both: that a long prompt takes longer than a short one is no noise of the ratio. Runs are
drawn one fewer than there are, because drawing two of two would halve the spread (Rao and Wu, JASA 1988).
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

from kvstress.gate.evidence import Interval, Timed

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Summary: TypeAlias = Callable[[Sequence[Timed], "NDArray[np.int64]"], "NDArray[np.float64]"]

RESAMPLES = 2_000
LEVEL = 0.95
# Fewer prompts than this say too little about how much they differ.
PROMPTS = 8
# Draws are made in blocks of about so many values: all at once would be hundreds of megabytes.
_BLOCK = 1_000_000


def ratio_interval(base: Sequence[Timed], head: Sequence[Timed], q: float) -> Interval | None:
    """The LEVEL interval of head's `q` quantile of seconds over base's (percentile method).

    Both hold the same prompts. None with fewer than PROMPTS, or where base's quantile may be 0. With one run a side,
    what differs between two starts of a server is not in it.
    """
    base, head = (sorted(side, key=lambda timed: timed.seconds) for side in (base, head))
    return _interval(base, head, lambda side, weights: _quantiles(side, weights, q))


def pace_interval(base: Sequence[Timed], head: Sequence[Timed]) -> Interval | None:
    """The LEVEL interval of head's amount a second over base's: all that was generated over the time that all took."""
    return _interval(base, head, _paces)


def _interval(base: Sequence[Timed], head: Sequence[Timed], summary: "Summary") -> Interval | None:
    prompts = len({timed.prompt for timed in base})
    if prompts < PROMPTS or not head:
        return None
    import numpy as np

    draws, ratios = np.random.default_rng(0), []
    rows = max(1, _BLOCK // max(len(base), len(head)))
    for done in range(0, RESAMPLES, rows):
        count = min(rows, RESAMPLES - done)
        drawn = draws.multinomial(prompts, [1.0 / prompts] * prompts, size=count)
        below, above = (summary(side, _weights(side, drawn, draws)) for side in (base, head))
        if float(below.min()) <= 0.0:
            return None
        ratios.append(above / below)
    low, high = np.quantile(np.concatenate(ratios), [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(low), float(high)


def _weights(side: Sequence[Timed], drawn: "NDArray[np.int64]", draws: "np.random.Generator") -> "NDArray[np.int64]":
    """How often each measurement is taken in each draw: its prompt as `drawn`, times its run."""
    import numpy as np

    prompts = np.asarray([timed.prompt for timed in side])
    of = {run: place for place, run in enumerate(sorted({timed.run for timed in side}))}
    runs = np.asarray([of[timed.run] for timed in side])
    chosen = draws.multinomial(max(1, len(of) - 1), [1.0 / len(of)] * len(of), size=len(drawn))
    weights: NDArray[np.int64] = drawn[:, prompts] * chosen[:, runs]
    # A run that completed few of the prompts may be drawn with none of them: then its side is taken whole.
    weights[weights.sum(axis=1) == 0] = 1
    return weights


def _quantiles(side: Sequence[Timed], weights: "NDArray[np.int64]", q: float) -> "NDArray[np.float64]":
    """The `q` quantile of each draw: the first value with that share of the draw's measurements at or below it."""
    import numpy as np

    values = np.asarray([timed.seconds for timed in side], dtype=float)
    reached = np.cumsum(weights, axis=1)
    place = np.minimum((reached < q * reached[:, -1:] - 1e-9).sum(axis=1), len(values) - 1)
    taken: NDArray[np.float64] = values[place]
    return taken


def _paces(side: Sequence[Timed], weights: "NDArray[np.int64]") -> "NDArray[np.float64]":
    import numpy as np

    amounts, seconds = (
        np.asarray([getattr(timed, name) for timed in side], dtype=float) for name in ("amount", "seconds")
    )
    pace: NDArray[np.float64] = (weights @ amounts) / (weights @ seconds)
    return pace
