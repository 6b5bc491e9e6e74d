"""Quantities that people type have one reading each."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvstress.core.errors import UsageError
from kvstress.core.units import duration, memory, show_duration, show_tokens, tokens


@pytest.mark.parametrize(
    ("text", "expected"),
    [("50G", 50 * 2**30), ("50GiB", 50 * 2**30), ("1.5g", 3 * 2**29), ("512M", 2**29), ("4096", 4096), ("1 TB", 2**40)],
)
def test_memory_is_binary(text: str, expected: int) -> None:
    assert memory(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"), [("16k", 16_000), ("16K", 16_000), (32, 32), ("1.5k", 1_500), ("1m", 10**6)]
)
def test_token_counts_are_decimal(text: str | int, expected: int) -> None:
    assert tokens(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [("25m", 1500.0), ("90s", 90.0), ("1.5h", 5400.0), ("200ms", 0.2), (900.0, 900.0), ("2d", 172800.0)],
)
def test_durations_are_seconds(text: str | float, expected: float) -> None:
    assert duration(text) == pytest.approx(expected)


@pytest.mark.parametrize("text", ["", "G", "fifty", "50X", "-3", "1e3", "5 5"])
def test_what_cannot_be_read_is_named_with_an_example(text: str) -> None:
    for read in (memory, tokens, duration):
        with pytest.raises(UsageError, match=r"such as|use "):
            read(text)


@given(st.floats(min_value=0, max_value=1e6))
def test_every_duration_can_be_shown(seconds: float) -> None:
    assert show_duration(seconds).endswith(("s", "m"))


def test_a_shown_duration_never_says_sixty_seconds() -> None:
    assert show_duration(119.7) == "2 m 00 s"
    assert show_duration(3_720) == "1 h 02 m"


def test_a_count_that_is_no_number_is_shown_and_not_raised() -> None:
    assert [show_tokens(count) for count in (1234.0, float("inf"), float("nan"))] == ["1,234", "inf", "nan"]
