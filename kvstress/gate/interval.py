"""How far a ratio of two quantiles, or of two paces, may be off: a bootstrap over prompts, with fixed draws.

A limit on a ratio means nothing without it: the 95th percentile of 40 requests moves by a tenth when
nothing has changed. Both sides were sent the same prompts, so each draw takes the same ones from both: that a
long prompt takes longer than a short one is no noise of the ratio. The draws are seeded: a gate judged twice
says the same twice.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

RESAMPLES = 2_000
LEVEL = 0.95
# Fewer prompts than this say too little about how much they differ.
PROMPTS = 8
# Draws are made in blocks of about so many values: all at once would be hundreds of megabytes.
_BLOCK = 1_000_000


def ratio_interval(
    base: Sequence[Sequence[float]], head: Sequence[Sequence[float]], q: float
) -> tuple[float, float] | None:
    """The LEVEL interval of head's `q` quantile over base's (Efron's percentile method, prompts as clusters).

    `base` and `head` hold the samples of the same prompts in the same order. None with fewer than PROMPTS, or where
    base's quantile may be 0. What differs between starts of a server is in it only as far as there are several.
    """
    if min(len(base), len(head)) < PROMPTS:
        return None
    import numpy as np

    sides = [_sorted(side) for side in (base, head)]
    draws = np.random.default_rng(0)
    ratios = []
    for weights in _weights(len(base), max(len(values) for values, _ in sides), draws):
        below, above = (_quantiles(values, owners, weights, q) for values, owners in sides)
        if float(below.min()) <= 0.0:
            return None
        ratios.append(above / below)
    return _ends(ratios)


def pace_interval(
    base: Sequence[tuple[float, float]], head: Sequence[tuple[float, float]]
) -> tuple[float, float] | None:
    """The LEVEL interval of head's tokens a second over base's; both hold tokens and seconds of the same prompts.

    Each side is what all its prompts generated over the time that all took, so that long ones count as such.
    """
    if min(len(base), len(head)) < PROMPTS:
        return None
    import numpy as np

    below, above = np.asarray(base, dtype=float), np.asarray(head, dtype=float)
    ratios = []
    for weights in _weights(len(base), len(base), np.random.default_rng(0)):
        slow, fast = weights @ below, weights @ above
        if float(slow[:, 0].min()) <= 0.0 or float(fast[:, 1].min()) <= 0.0:
            return None
        ratios.append((fast[:, 0] / fast[:, 1]) / (slow[:, 0] / slow[:, 1]))
    return _ends(ratios)


def _weights(prompts: int, values: int, draws: "np.random.Generator") -> "list[NDArray[np.int64]]":
    """How often each prompt is drawn in each of RESAMPLES draws with replacement, in blocks."""
    rows = max(1, _BLOCK // max(1, values))
    chance = [1.0 / prompts] * prompts
    return [draws.multinomial(prompts, chance, size=min(rows, RESAMPLES - done)) for done in range(0, RESAMPLES, rows)]


def _sorted(side: Sequence[Sequence[float]]) -> "tuple[NDArray[np.float64], NDArray[np.int64]]":
    """All samples in order, and the prompt that each is of."""
    import numpy as np

    values = np.asarray([value for samples in side for value in samples], dtype=float)
    owners = np.asarray([number for number, samples in enumerate(side) for _ in samples], dtype=np.int64)
    order = np.argsort(values, kind="stable")
    return values[order], owners[order]


def _quantiles(
    values: "NDArray[np.float64]", owners: "NDArray[np.int64]", weights: "NDArray[np.int64]", q: float
) -> "NDArray[np.float64]":
    """The `q` quantile of each draw: the first value with that share of the draw's samples at or below it."""
    import numpy as np

    reached = np.cumsum(weights[:, owners], axis=1)
    place = np.minimum((reached < q * reached[:, -1:] - 1e-9).sum(axis=1), len(values) - 1)
    taken: NDArray[np.float64] = values[place]
    return taken


def _ends(ratios: "list[NDArray[np.float64]]") -> tuple[float, float]:
    import numpy as np

    low, high = np.quantile(np.concatenate(ratios), [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(low), float(high)
