"""Sizing is a straight line through what the server counted."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvstress.core.sizing import fit


@given(st.integers(0, 300), st.floats(0.5, 30), st.integers(1_000, 64_000))
def test_a_prompt_sized_by_an_exact_line_comes_within_one_unit(overhead: int, per_unit: float, wanted: int) -> None:
    points = tuple((units, round(overhead + per_unit * units)) for units in (40, 400))
    line = fit(points, "measured")
    assert abs(line.overhead + line.per_unit * line.units(wanted) - wanted) <= line.per_unit / 2 + 1e-6


def test_counts_that_do_not_grow_cannot_size_anything() -> None:
    with pytest.raises(ValueError, match="do not grow"):
        fit(((40, 7), (400, 7)), "measured")
    with pytest.raises(ValueError, match="two different lengths"):
        fit(((40, 7), (40, 9)), "measured")
