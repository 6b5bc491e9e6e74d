"""Thinning keeps what a reader looks for and bounds what it keeps."""

from hypothesis import given
from hypothesis import strategies as st

from kvstress.report.thin import STRETCHES, Thinned

POINTS = st.lists(st.tuples(st.integers(0, 5_000), st.floats(-1e6, 1e6)), max_size=600)


def thinned(points: list[tuple[int, float]]) -> Thinned:
    series = Thinned()
    for step, value in points:
        series.add(step, value)
    return series


def test_a_short_series_is_kept_whole() -> None:
    points = [(step, float(step % 7)) for step in range(STRETCHES)]
    series = thinned(points)
    assert series.width == 1
    assert series.points() == points


def test_one_spike_in_a_hundred_thousand_survives() -> None:
    series = thinned([(step, 9.0 if step == 77_777 else 1.0) for step in range(100_000)])
    assert (77_777, 9.0) in series.points()
    assert len(series.points()) <= 2 * STRETCHES


@given(POINTS)
def test_extremes_survive_and_nothing_is_invented(points: list[tuple[int, float]]) -> None:
    kept = thinned(points).points()
    assert set(kept) <= set(points)
    assert len(kept) <= 2 * STRETCHES
    if points:
        values = [value for _, value in kept]
        assert min(values) == min(value for _, value in points)
        assert max(values) == max(value for _, value in points)


def test_an_outlying_step_number_does_not_make_it_run_on() -> None:
    series = thinned([(step, 1.0) for step in range(STRETCHES)] + [(10**12, 2.0)])
    assert (10**12, 2.0) in series.points()
    assert len(series.points()) <= STRETCHES
