"""Survival of the first failure: against scipy's estimator, and against sums that can be done by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import CensoredData, ecdf

from kvstress.stats.multiple import holm
from kvstress.stats.survival import Time, horizon, kaplan_meier, log_rank, median, restricted_mean

runs = st.lists(st.builds(Time, steps=st.integers(1, 30).map(float), failed=st.booleans()), min_size=1, max_size=12)

few = st.lists(st.builds(Time, steps=st.integers(1, 9).map(float), failed=st.booleans()), min_size=1, max_size=6)


def failed(*steps: float) -> list[Time]:
    return [Time(steps=at, failed=True) for at in steps]


def passed(*steps: float) -> list[Time]:
    return [Time(steps=at, failed=False) for at in steps]


@given(runs)
def test_the_curve_is_scipys(times: list[Time]) -> None:
    fails, ends = ([t.steps for t in times if t.failed is kind] for kind in (True, False))
    known = ecdf(CensoredData(uncensored=fails, right=ends)).sf
    ours = {point.steps: point.surviving for point in kaplan_meier(times)}
    assert list(ours.values()) == pytest.approx(list(known.evaluate(np.array(list(ours)))))


@given(few, few)
def test_p_is_a_probability_and_does_not_depend_on_which_side_is_called_head(
    base: list[Time], head: list[Time]
) -> None:
    p = log_rank(base, head)
    assert 0 < p <= 1
    assert log_rank(head, base) == pytest.approx(p)


def test_four_against_four_that_fail_earlier_give_two_in_seventy() -> None:
    assert log_rank(passed(143, 143, 143, 143), failed(14, 16, 15, 17)) == pytest.approx(2 / 70)


def test_three_against_three_cannot_be_significant() -> None:
    assert log_rank(passed(143, 143, 143), failed(14, 16, 15)) == pytest.approx(2 / 20)


def test_sides_too_large_for_all_ways_are_drawn_and_agree_with_the_exact_answer() -> None:
    draw = np.random.default_rng(3)
    base, head = (failed(*draw.integers(1, 40, 12).astype(float)) for _ in range(2))
    drawn = log_rank(base, head)
    assert log_rank(base[:9], head[:8]) <= 1
    assert drawn == pytest.approx(log_rank(list(reversed(base)), head), abs=0.02)


def test_the_restricted_mean_counts_a_run_that_ended_as_later_than_its_end() -> None:
    assert restricted_mean(failed(10, 20), 20) == 15
    assert restricted_mean(passed(20, 20), 20) == 20
    assert restricted_mean([*failed(10), *passed(20)], 15) == 12.5
    assert horizon(failed(10, 20), passed(143)) == 143, "a side whose runs all failed is known to the end"
    assert horizon([*failed(10), *passed(20)], passed(143)) == 20
    assert horizon(failed(10, 20), failed(30)) == 30


def test_the_median_is_absent_when_half_never_failed() -> None:
    assert median(failed(14, 16, 18)) == 16
    assert median([*failed(14), *passed(143, 143)]) is None


def test_holm_is_the_textbooks() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx((0.03, 0.06, 0.06, 0.02))
    assert holm([]) == ()
