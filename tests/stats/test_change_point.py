"""One change in a series of commits: found where it is, and not where there is none."""

import math

import numpy as np

from kvstress.stats.change_point import change_point


def test_a_fix_that_ends_the_failures_is_found_where_it_came() -> None:
    found = change_point([16, 14, 17, 15, 16, 14, *[math.inf] * 6])
    assert found is not None
    assert found.at == 6
    assert found.rises


def test_a_latency_that_falls_is_found_and_said_to_fall() -> None:
    found = change_point([0.20, 0.21, 0.22, 0.19, 0.20, 0.11, 0.10, 0.12, 0.11, 0.10])
    assert found is not None
    assert (found.at, found.rises) == (5, False)


def test_the_same_all_along_has_none() -> None:
    assert change_point([math.inf] * 30) is None
    assert change_point([16.0] * 30) is None


def test_too_short_a_series_has_none() -> None:
    assert change_point([1, 1, 9, 9, 9]) is None


def test_noise_is_called_a_change_about_as_seldom_as_the_level_says() -> None:
    draws = np.random.default_rng(5)
    called = sum(change_point(list(draws.normal(size=20))) is not None for _ in range(200))
    assert called <= 20
