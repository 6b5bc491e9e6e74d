"""First failures as survival times, because a run without one says "later than this" and not "never".

A mean of first failures would have to leave such runs out or invent a number for them; both favour the
side that ran longer. Kaplan and Meier's curve and the log-rank statistic use what each run does say.
The p-value is a permutation's: with a handful of runs no asymptotic distribution holds.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from math import comb
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# All ways to deal out the runs are tried up to this many; beyond it, this many are drawn.
MOST_EXACT = 100_000
DRAWN = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Time:
    """`steps` until the first failure (`failed`), or until the run ended without one."""

    steps: float
    failed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """After `steps`, `surviving` (0–1) of the runs have not failed; `at_risk` were still going just before."""

    steps: float
    surviving: float
    at_risk: int


def kaplan_meier(times: Sequence[Time]) -> tuple[Point, ...]:
    """The product-limit estimate (Kaplan and Meier 1958), a point at each step at which a run failed or ended."""
    surviving, points = 1.0, []
    for steps in sorted({time.steps for time in times}):
        at_risk = sum(time.steps >= steps for time in times)
        failed = sum(time.steps == steps and time.failed for time in times)
        surviving *= 1 - failed / at_risk
        points.append(Point(steps=steps, surviving=surviving, at_risk=at_risk))
    return tuple(points)


def median(times: Sequence[Time]) -> float | None:
    """The step by which half of the runs have failed; None when the curve never comes down to a half."""
    return next((point.steps for point in kaplan_meier(times) if point.surviving <= 0.5), None)


def restricted_mean(times: Sequence[Time], horizon: float) -> float:
    """Mean steps survived up to `horizon`: the area under the curve (Irwin 1949). Horizon ≥ 0."""
    area, before, surviving = 0.0, 0.0, 1.0
    for point in kaplan_meier(times):
        if point.steps >= horizon:
            break
        area += surviving * (point.steps - before)
        before, surviving = point.steps, point.surviving
    return area + surviving * (horizon - before)


def horizon(base: Sequence[Time], head: Sequence[Time]) -> float:
    """As far as both curves are known: one that ends in a failure is 0 from there on, one that does not just ends."""
    ends = [max(side, key=lambda time: (time.steps, not time.failed)) for side in (base, head)]
    known = [end.steps for end in ends if not end.failed]
    return min(known) if known else max(end.steps for end in ends)


def log_rank(base: Sequence[Time], head: Sequence[Time]) -> float:
    """Two-sided p of the log-rank statistic (Mantel 1966) over all ways to deal the same runs out to the two sides.

    Exact up to MOST_EXACT ways, else from DRAWN seeded draws with the observed one counted in. 1.0 when no run failed.
    """
    import numpy as np

    times = (*base, *head)
    failures = np.array([[t.failed and t.steps == at for t in times] for at in _failing(times)], dtype=float)
    if not len(failures):
        return 1.0
    going = np.array([[t.steps >= at for t in times] for at in _failing(times)], dtype=float)
    expected = (failures.sum(axis=1) / going.sum(axis=1))[:, None] * going
    score = (failures - expected).sum(axis=0)
    dealt = _dealt(len(times), len(head))
    sums = np.abs(score[dealt].sum(axis=1)) if dealt is not None else np.abs(_drawn(score, len(head)))
    seen = abs(float(score[len(base) :].sum())) - 1e-9
    if dealt is not None:
        return float((sums >= seen).mean())
    return float((1 + (sums >= seen).sum()) / (1 + len(sums)))


def _failing(times: Sequence[Time]) -> list[float]:
    return sorted({time.steps for time in times if time.failed})


def _dealt(runs: int, taken: int) -> "NDArray[np.intp] | None":
    """Every choice of `taken` of `runs` places, (ways, taken); None when there are too many."""
    import numpy as np

    if comb(runs, taken) > MOST_EXACT:
        return None
    return np.array(list(combinations(range(runs), taken)), dtype=np.intp)


def _drawn(score: "NDArray[np.float64]", taken: int) -> "NDArray[np.float64]":
    import numpy as np

    draws = np.random.default_rng(0)
    order = draws.random((DRAWN, len(score))).argsort(axis=1)[:, :taken]
    summed: NDArray[np.float64] = score[order].sum(axis=1)
    return summed
