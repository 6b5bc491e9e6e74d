"""When the steps of an open loop are due: times drawn before anything is sent, so that a plan repeats its rhythm too.

Real traffic comes in bursts that a constant rate never shows, and a Poisson process shows only some of them: the
gamma process with a coefficient of variation above 1 is what production traces look like.
"""

import math
from collections.abc import Callable, Iterator
from itertools import count

from kvstress.workload import draws
from kvstress.workload.format import Schedule

# Times are rounded to this, so that the last digit of a machine's logarithm does not become another plan.
_STEP = 1e-6


def dues(schedule: Schedule, key: str, alone: float | None = None) -> Iterator[float]:
    """Seconds after the start of the traffic at which steps 0, 1, 2, … are due; step 0 is due at 0.

    `schedule.every` is the mean gap in seconds; without it, it is what keeps a server that takes `alone` seconds for
    each busy for `schedule.load` of the time (the utilisation of a queue: arrivals a second times seconds each); a
    second where `alone` was not measured. constant: each gap is that; poisson: exponential gaps; gamma: gaps with
    the coefficient of variation `schedule.burstiness` (1 is Poisson, 0.5 calmer, 3 in bursts).
    """
    every = schedule.every or (1.0 if alone is None else alone) / (schedule.load or 1.0)
    gap = _GAPS[schedule.arrivals]
    due = 0.0
    for step in count():
        yield round(due / _STEP) * _STEP
        due += every * gap(schedule.burstiness, f"{key}/arrival/{step}")


def _constant(burstiness: float, key: str) -> float:
    return 1.0


def _exponential(burstiness: float, key: str) -> float:
    return -math.log1p(-draws.fraction(key))


def _gamma(burstiness: float, key: str) -> float:
    """A gamma variate of mean 1 and standard deviation `burstiness`: shape 1/b², scale b² (Marsaglia and Tsang 2000).

    A shape below 1 is drawn at shape + 1 and multiplied by u^(1/shape), as their section 6 says.
    """
    shape = 1 / burstiness**2
    boost = 1.0 if shape >= 1 else (1 - draws.fraction(f"{key}/boost")) ** (1 / shape)
    d = (shape if shape >= 1 else shape + 1) - 1 / 3
    for attempt in count():
        x = _normal(f"{key}/{attempt}")
        v = (1 + x / math.sqrt(9 * d)) ** 3
        u = 1 - draws.fraction(f"{key}/{attempt}/accept")
        if v > 0 and math.log(u) < x * x / 2 + d - d * v + d * math.log(v):
            return d * v * boost / shape
    raise AssertionError("count() does not end")


def _normal(key: str) -> float:
    """A standard normal variate (Box and Muller 1958)."""
    radius = math.sqrt(-2 * math.log(1 - draws.fraction(f"{key}/radius")))
    return radius * math.cos(2 * math.pi * draws.fraction(f"{key}/angle"))


_GAPS: dict[str, Callable[[float, str], float]] = {
    "constant": _constant,
    "poisson": _exponential,
    "gamma": _gamma,
}
