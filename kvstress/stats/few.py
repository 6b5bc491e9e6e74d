"""Fewer than four runs a side that fail on both: only a head that fails earlier in every run is worse.

Where no run of the base fails, the same failure twice is news enough. Where it fails as well, first failures of
different prompts scatter by several steps, and "two of three came before all of the base's" happens to one
pair in ten of which nothing was changed; that all three do, to one in twenty at the most.
"""

from collections.abc import Sequence

from kvstress.stats.facts import Change, Side
from kvstress.stats.survival import Time

LEAST_RUNS = 3
LEAST_STEPS, LEAST_SHARE = 2.0, 0.10


def apart(base: Side, head: Side) -> tuple[Change, str]:
    """Whether one side's first failures all lie before the other's, by a least effect, in three runs each or more."""
    times = [[facts.first for facts in side if facts.first is not None] for side in (base, head)]
    if min(map(len, times)) < LEAST_RUNS:
        return (
            Change.CANNOT_TELL,
            "both sides fail; three runs a side would tell if all of one fail before all of the other",
        )
    if _before(times[1], times[0]):
        return (
            Change.REGRESSED,
            f"every run of the head failed before any of the base did: {_steps(times[1])}, {_steps(times[0])}",
        )
    if _before(times[0], times[1]):
        return (
            Change.IMPROVED,
            f"every run of the head came further than any of the base did: {_steps(times[1])}, {_steps(times[0])}",
        )
    return Change.CANNOT_TELL, "both sides fail, and their first failures overlap; four runs of each allow a test"


def _before(early: Sequence[Time], late: Sequence[Time]) -> bool:
    last, first = max(time.steps for time in early), min(time.steps for time in late)
    return all(time.failed for time in early) and first - last >= max(LEAST_STEPS, LEAST_SHARE * first)


def _steps(times: Sequence[Time]) -> str:
    return " ".join(f"{time.steps:g}{'' if time.failed else '+'}" for time in times)
