"""The rhythm of an open loop: what the gaps are on average, and that a seed repeats them."""

from itertools import islice, pairwise
from statistics import mean, pstdev

import pytest

from kvstress.core.errors import UsageError
from kvstress.workload.format import Schedule
from kvstress.workload.pacing import dues
from kvstress.workload.spec import Spec, override


def gaps(arrivals: str, burstiness: float = 1.0, key: str = "k", count: int = 4000) -> list[float]:
    schedule = Schedule(kind="open", every=2.0, arrivals=arrivals, burstiness=burstiness)  # type: ignore[arg-type]
    return [after - before for before, after in pairwise(islice(dues(schedule, key), count))]


def test_constant_arrivals_are_evenly_apart() -> None:
    assert gaps("constant", count=5) == pytest.approx([2.0] * 4)


@pytest.mark.parametrize(
    ("arrivals", "burstiness", "variation"),
    [("poisson", 1.0, 1.0), ("gamma", 1.0, 1.0), ("gamma", 0.5, 0.5), ("gamma", 3.0, 3.0), ("poisson", 9.0, 1.0)],
)
def test_random_gaps_have_the_mean_and_the_variation_asked_for(
    arrivals: str, burstiness: float, variation: float
) -> None:
    drawn = gaps(arrivals, burstiness)
    assert all(gap >= 0 for gap in drawn)
    # 4,000 gaps: the standard error of their mean is 2·variation/63.
    assert mean(drawn) == pytest.approx(2.0, abs=4 * 2 * variation / 63)
    assert pstdev(drawn) / mean(drawn) == pytest.approx(variation, rel=0.25)


def test_a_seed_repeats_its_rhythm_and_another_has_its_own() -> None:
    assert gaps("gamma", 2.0, count=50) == gaps("gamma", 2.0, count=50)
    assert gaps("poisson", count=50) != gaps("poisson", key="other", count=50)


def test_the_first_step_is_due_at_once() -> None:
    assert next(dues(Schedule(kind="open", every=2.0), "k")) == 0.0


def test_an_open_schedule_without_a_rate_is_refused(spec: Spec) -> None:
    with pytest.raises(UsageError, match="needs the mean time between steps"):
        override(spec, {"schedule.kind": "open"})
