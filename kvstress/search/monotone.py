"""Is there evidence that a larger limit fails more often than a smaller one?

A search by halving assumes that there is not, and would never notice. So the claim is tested on what
was seen: the likelihood ratio between "these two limits fail with probabilities of their own" and
"both fail equally often", which is the most that a monotone server could do for them.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

# (fails, probes) of one index.
Tally = tuple[int, int]
# 2 ln of the likelihood ratio. Four passes of four against four failures of four give 11.1, three against four 9.6:
# pairs are picked out of many, so three passes in a row may still be luck.
CALLED = 10.5
WORTH_A_LOOK = 2.7  # one pass below one failure


@dataclass(frozen=True, slots=True, kw_only=True)
class Inversion:
    """`lower` fails less often than `higher`, though it lies further to the failing side; `strength` is 2 ln ratio."""

    lower: int
    higher: int
    strength: float

    @property
    def called(self) -> bool:
        """True when it is too strong for luck."""
        return self.strength >= CALLED


def strongest(tallies: Mapping[int, Tally], apart: int = 1) -> Inversion | None:
    """The strongest inversion between two indices at least `apart`; None when there is none. Failures belong low."""
    found = [
        Inversion(lower=low, higher=high, strength=strength(tallies[low], tallies[high]))
        for low in tallies
        for high in tallies
        if high - low >= apart and tallies[low][0] * tallies[high][1] < tallies[high][0] * tallies[low][1]
    ]
    return max(found, key=lambda one: (one.strength, one.lower - one.higher), default=None)


def strength(one: Tally, other: Tally) -> float:
    """2 ln of the likelihood ratio of two rates against one common rate."""
    both = (one[0] + other[0], one[1] + other[1])
    return 2 * (_log_likelihood(one) + _log_likelihood(other) - _log_likelihood(both))


def _log_likelihood(tally: Tally) -> float:
    fails, probes = tally
    return sum(count * math.log(count / probes) for count in (fails, probes - fails) if count)
