"""How often is the same called worse, and how often is worse called so? `python -m tests.stats.study [PAIRS]`.

Sides are drawn from forty stored runs of the reference server that differ in their prompt seed alone
(`reports/reference/first_failures.csv`), with synthetic timings on top: a start of a server moves all of a run's
requests together by a few per cent, and each request varies by itself. Nothing was changed between the sides, so each
REGRESSED is false. For the power, the same runs fail five prompts earlier on one side. The test suite runs a part.
"""

import csv
import sys
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from scipy.stats import beta

from kvstress.gate.evidence import First, Seen
from kvstress.harness.compare import judged
from kvstress.stats.facts import Change

STORED = Path(__file__).parents[2] / "reports" / "reference" / "first_failures.csv"
SIDES = (1, 2, 3, 4, 5, 10)
REQUESTS, STARTS, SPREAD = 40, 0.03, 0.15
EARLIER = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """A share of `pairs`, with its exact 95 % interval (Clopper and Pearson 1934)."""

    hits: int
    pairs: int

    @property
    def interval(self) -> tuple[float, float]:
        low = beta.ppf(0.025, self.hits, self.pairs - self.hits + 1) if self.hits else 0.0
        high = beta.ppf(0.975, self.hits + 1, self.pairs - self.hits) if self.hits < self.pairs else 1.0
        return float(low), float(high)

    def __str__(self) -> str:
        low, high = self.interval
        return f"{100 * self.hits / self.pairs:5.1f} % ({100 * low:.1f} to {100 * high:.1f})"


def stored() -> list[Seen]:
    """The forty runs."""
    with STORED.open(newline="") as file:
        return [_seen(row) for row in csv.DictReader(file)]


def _seen(row: dict[str, str]) -> Seen:
    first, failed = int(row["steps"]), bool(row["signature"])
    return Seen(
        run=row["seed"],
        plan=row["seed"],
        first=First(step=first, failed=failed, signature=row["signature"] or None),
        levels={
            "pool_fill": float(row["fill"]),
            "capacity": float(row["capacity"]),
            "errors": float(failed),
            "requests": 2.0 * first,
        },
        signatures=frozenset({row["signature"]} if failed else ()),
    )


def timed(seen: Seen, draws: np.random.Generator) -> Seen:
    """`seen` with timings of a server that has not changed."""
    start = draws.lognormal(0.0, STARTS)
    seconds = start * draws.lognormal(np.log(0.2), SPREAD, REQUESTS)
    samples = tuple((step, float(one)) for step, one in enumerate(seconds))
    paces = tuple((step, 64.0, one) for step, one in samples)
    return replace(seen, latencies={("e2e", "warm"): samples}, paces=paces)


def earlier(seen: Seen) -> Seen:
    """The same run on a head that fails EARLIER prompts sooner."""
    assert seen.first is not None
    return replace(seen, first=replace(seen.first, step=max(0, seen.first.step - EARLIER)))


def verdicts(pairs: int, side: int, *, worse: bool = False, seed: int = 0) -> Counter[Change]:
    """What `pairs` comparisons of `side` runs against as many others came to."""
    runs, draws = stored(), np.random.default_rng([seed, side])
    found: Counter[Change] = Counter()
    for _ in range(pairs):
        chosen = [timed(runs[place], draws) for place in draws.choice(len(runs), 2 * side, replace=False)]
        base, head = tuple(chosen[:side]), tuple(chosen[side:])
        found[judged(base, tuple(map(earlier, head)) if worse else head).verdict] += 1
    return found


def main(pairs: int = 1_000) -> None:
    """Print the table."""
    print(f"{pairs} pairs each of {len(stored())} stored runs; shares with their exact 95 % intervals")
    print(f"{'runs a side':<12} {'same called REGRESSED':<28} {'5 steps earlier called REGRESSED':<34} otherwise")
    for side in SIDES:
        same, worse = verdicts(pairs, side), verdicts(pairs, side, worse=True)
        false, power = (Rate(hits=found[Change.REGRESSED], pairs=pairs) for found in (same, worse))
        rest = ", ".join(
            f"{change.value} {count}" for change, count in same.most_common() if change is not Change.REGRESSED
        )
        print(f"{side:<12} {false!s:<28} {power!s:<34} {rest}", flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
