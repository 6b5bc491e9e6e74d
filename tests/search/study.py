"""How good is the search on flaky servers? Thousands of searches of simulated ones whose boundary is known.

Run `python -m tests.search.study [SEARCHES]` for the whole table (500 searches each take a few minutes); the test
suite runs a seeded part of it. The rival is plain bisection that probes each value r times and takes it as failing at a
share of q or more; its r is the smallest with which it covers the true boundary as often as the search does, in an
interval as wide. A second rival takes one failure in r as failing, which is right only where nothing fails above the
boundary; it is printed because on a step it is hard to beat.
"""

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from statistics import mean, median

from kvstress.search.conclusion import Status, conclude
from kvstress.search.flaky import next_cells
from kvstress.search.outcome import Outcome, Seen, Showing

COUNT = 57  # 40G to 96G at 1G
Q, MOST = 0.5, 12
FAILS, SURVIVED = Outcome(showing=Showing.FAILS, exposure=20), Outcome(showing=Showing.SURVIVED, exposure=40)
Curve = Callable[[float], float]


def step(centre: float) -> Curve:
    """Fails three times in four up to its centre, never above."""
    return lambda x: 0.75 if x <= centre else 0.0


def sigmoid(width: float, top: float = 1.0) -> Callable[[float], Curve]:
    """A fall over about four times `width`, in resolutions, from `top`."""
    return lambda centre: lambda x: top / (1 + math.exp(min(700.0, (x - centre) / width)))


def non_monotone(centre: float) -> Curve:
    """Fails at two bands of limits, with a band that mostly passes between them."""
    return lambda x: 0.95 if x <= centre / 2 else 0.05 if x <= centre else 0.95 if x <= centre + 14 else 0.02


MONOTONE: dict[str, Callable[[float], Curve]] = {
    "step": step,
    "sigmoid, width 0.5": sigmoid(0.5),
    "sigmoid, width 1": sigmoid(1.0),
    "sigmoid, width 2": sigmoid(2.0, 0.95),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """One server's row: shares of searches, resolutions, probes."""

    covered: float
    width: float
    probes: float
    called_uneven: float


@dataclass(frozen=True, slots=True, kw_only=True)
class _One:
    covers: bool
    width: int
    probes: int
    uneven: bool


def study(server: Callable[[float], Curve], searches: int, seed: int = 0) -> Figures:
    """`searches` searches, each of a server with its boundary elsewhere."""
    random = Random(seed)
    done = [_search(server(random.uniform(8, 40)), random) for _ in range(searches)]
    told = [one.width for one in done if not one.uneven]
    return Figures(
        covered=mean(one.covers for one in done),
        width=median(told or [math.inf]),
        probes=mean(one.probes for one in done),
        called_uneven=mean(one.uneven for one in done),
    )


def true_boundary(curve: Curve) -> int:
    """The largest value that fails with probability q or more; −1 when none does."""
    return max((x for x in range(COUNT) if curve(x) >= Q), default=-1)


def _search(curve: Curve, random: Random) -> _One:
    seen: list[Seen] = []
    while cells := next_cells(COUNT, seen, q=Q, most=MOST):
        for cell in cells:
            failed = random.random() < curve(cell.index)
            seen.append(Seen(cell=cell, outcome=FAILS if failed else SURVIVED))
        assert len(seen) < 1000, "a search ends"
    found = conclude(COUNT, seen, repeats=MOST, q=Q)
    if found.boundary is None:
        return _One(covers=False, width=COUNT, probes=len(seen), uneven=found.status is Status.NOT_MONOTONE)
    # The interval (failing, passing) holds every boundary from `failing` to the one just below `passing`.
    low, high = found.boundary.failing, found.boundary.passing - 1
    return _One(covers=low <= true_boundary(curve) <= high, width=high - low, probes=len(seen), uneven=False)


def rival(
    server: Callable[[float], Curve], searches: int, coverage: float, *, share: float = Q, seed: int = 0
) -> tuple[int, float]:
    """The r that plain bisection needs for `coverage`, and its probes; r is 0 when 40 do not suffice."""
    for repeats in range(1, 41):
        random = Random(seed)
        done = [_plain(server(random.uniform(8, 40)), random, repeats, share) for _ in range(searches)]
        if mean(covers for covers, _ in done) >= coverage:
            return repeats, mean(probes for _, probes in done)
    return 0, math.inf


def _plain(curve: Curve, random: Random, repeats: int, share: float) -> tuple[bool, int]:
    """Bisection between the two ends, which are probed too, down to neighbours; its interval is three wide as well."""
    low, high, probes = 0, COUNT - 1, 2 * repeats
    while high - low > 1:
        middle, probes = (low + high) // 2, probes + repeats
        failed = sum(random.random() < curve(middle) for _ in range(repeats))
        low, high = (middle, high) if failed / repeats >= share else (low, middle)
    return low - 1 <= true_boundary(curve) <= low + 2, probes


def _told(repeats: int, probes: float) -> str:
    return f"r = {repeats}: {probes:.1f} probes" if repeats else "not with r up to 40"


def main(searches: int = 500) -> None:
    """Print the table."""
    print(f"{searches} searches each, {COUNT} values, q = {Q}, each value at most {MOST} times")
    heads = f"{'covered':>8} {'width':>6} {'probes':>7} {'uneven':>7}"
    print(f"{'server':<20} {heads}   {'plain bisection':<22} one failure in r")
    rows, needed = [], []
    for name, server in MONOTONE.items():
        found = study(server, searches)
        repeats, probes = rival(server, searches, found.covered)
        hasty = _told(*rival(server, searches, found.covered, share=1e-9))
        figures = f"{found.covered:8.1%} {found.width:6.1f} {found.probes:7.1f} {found.called_uneven:7.1%}"
        print(f"{name:<20} {figures}   {_told(repeats, probes):<22} {hasty}", flush=True)
        rows.append(found.probes)
        needed.append((repeats or 40, probes))
    uneven = study(non_monotone, searches)
    print(f"{'non-monotone':<20} {'':8} {'':6} {uneven.probes:7.1f} {uneven.called_uneven:7.1%}")
    repeats, probes = max(needed)
    print(
        f"mean of the four: {mean(rows):.1f} probes; plain bisection with one r for all (r = {repeats}): {probes:.1f}"
    )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
