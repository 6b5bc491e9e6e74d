"""What flaky probes say about boundary(q): a posterior over how the failing probability falls with the limit.

The likelihood is one-sided. A failure was reproduced and is certain; a pass may be a failure that did not
happen this time. So every hypothesis has p → 0 on the passing side, where a single failure is near
impossible, but leaves p below 1 on the failing side, where a pass is merely unlucky.

A hypothesis is p(x) = top · σ((centre − x) / width), with width 0 for a step. boundary(q) is the largest x with
p(x) ≥ q. Indices are those of a grid on which failures lie low.
"""

from collections.abc import Collection
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

# A real server is mostly a step (it fits or it does not), so a width of 0 has more weight than any other.
_WIDTHS = ((0.0, 2.0), (0.5, 1.0), (1.0, 1.0), (2.0, 1.0), (4.0, 1.0), (8.0, 0.5))
_TOPS = ((1.0, 4.0), (0.9, 1.0), (0.75, 1.0), (0.6, 1.0), (0.35, 0.5), (0.15, 0.25))
# No probability is exactly 0 or 1: one impossible observation must not erase every hypothesis.
_FLOOR = 1e-4
GRID_CAP = 1 << 11


@dataclass(frozen=True, slots=True, eq=False)
class Hypotheses:
    """`fails[h, x]` is p(x) under h; `start[b]` the first h with boundary b − 1, for b from 0 to count; `prior[h]`."""

    fails: Floats
    start: NDArray[np.intp]
    prior: Floats


@lru_cache(maxsize=4)
def hypotheses(count: int, q: float) -> Hypotheses:
    """All hypotheses over `count` values, sorted by their boundary(q): −1 (none fails so often) to count − 1."""
    index = np.arange(count, dtype=np.float64)
    curves, prior = [], []
    for width, weight in _WIDTHS:
        centres = np.arange(-0.5, count) if width == 0 else np.arange(-1.0, count + 0.25, 0.5)
        shape = index <= centres[:, None] if width == 0 else 1 / (1 + np.exp((index - centres[:, None]) / width))
        for top, share in _TOPS:
            curves.append(np.clip(top * shape, _FLOOR, 1 - _FLOOR))
            prior.append(np.full(len(centres), weight * share / len(centres)))
    fails, weights = np.concatenate(curves), np.concatenate(prior)
    boundary = (fails >= q).sum(axis=1) - 1  # curves never rise
    order = np.argsort(boundary, kind="stable")
    # Every boundary is as likely as any other beforehand, whatever the number of curves that share it.
    group = boundary[order] + 1
    totals = np.bincount(group, weights=weights[order], minlength=count + 1)
    prior_of = weights[order] / totals[group] / (count + 1)
    return Hypotheses(fails=fails[order], start=np.searchsorted(group, np.arange(count + 1)), prior=prior_of)


@dataclass(frozen=True, slots=True, eq=False)
class Posterior:
    """Weights of the hypotheses after some probes."""

    over: Hypotheses
    weight: Floats

    def after(self, index: int, failed: int, probes: int = 1) -> "Posterior":
        """The posterior once `index` was seen to fail in `failed` of `probes` probes."""
        fails = self.over.fails[:, index]
        weight = self.weight * fails**failed * (1 - fails) ** (probes - failed)
        return Posterior(over=self.over, weight=weight / weight.sum())

    def boundary(self) -> Floats:
        """P(boundary = b − 1), for b from 0 to count."""
        return _grouped(self.weight, self.over.start)

    def interval(self, mass: float) -> tuple[int, int]:
        """The shortest range of boundaries that holds `mass`; −1 is "none fails so often"."""
        total = np.concatenate([[0.0], np.cumsum(self.boundary())])
        ends = np.searchsorted(total, total[:-1] + mass - 1e-12)
        reach = ends < len(total)
        first = int(np.argmin(np.where(reach, ends - np.arange(len(ends)), len(total))))
        return first - 1, int(ends[first]) - 2

    def most_telling(self, barred: Collection[int] = ()) -> int | None:
        """The index, none of those `barred`, whose probe is expected to leave the least entropy about the boundary."""
        joint = _grouped(self.weight[:, None] * self.over.fails, self.over.start)
        fails = joint.sum(axis=0)
        left = _entropy(joint, fails) + _entropy(self.boundary()[:, None] - joint, 1 - fails)
        left[list(barred)] = np.inf
        best = int(np.argmin(left))
        return best if np.isfinite(left[best]) else None


def prior(count: int, q: float) -> Posterior:
    """Before any probe."""
    over = hypotheses(count, q)
    return Posterior(over=over, weight=over.prior)


def _grouped(values: Floats, start: NDArray[np.intp]) -> Floats:
    summed: Floats = np.add.reduceat(values, start, axis=0)
    return summed


def _entropy(joint: Floats, total: Floats) -> Floats:
    """Σ −p ln(p / total) over the first axis: the entropy given an answer, times that answer's probability."""
    safe = np.maximum(joint, 1e-300)
    entropy: Floats = -(safe * np.log(safe)).sum(axis=0) + total * np.log(np.maximum(total, 1e-300))
    return entropy
