import csv
import io
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvstress.store import cells


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t=", "\r=", "  =", "＝", "＋", "－", "＠", "\n@"])
def test_a_cell_that_a_spreadsheet_would_run_gets_an_apostrophe(start: str) -> None:
    assert cells.text(start + "HYPERLINK(1)").startswith("'")


def test_a_formula_behind_a_semicolon_is_disarmed_too() -> None:
    assert cells.text("fail: x; =cmd|'/c calc'!A1") == "fail: x; '=cmd|'/c calc'!A1"


@given(st.text(alphabet=st.characters() | st.sampled_from("=+-@;\t\r\n \x1b\x00'\",")))
@settings(deadline=None)
def test_no_text_makes_a_formula_a_control_character_or_a_second_line(words: str) -> None:
    line = cells.row(["a", cells.text(words), "b"]).decode()
    (read,) = csv.reader(io.StringIO(line))
    assert len(read) == 3 and read[1] == cells.text(words)
    assert line.count("\n") == 1 and not any(ord(char) < 32 for char in line[:-1])
    assert not any(part.lstrip().startswith(tuple("=+-@＝＋－＠")) for part in read[1].split(";"))


def test_ordinary_words_are_left_alone() -> None:
    for words in ("ok", 'fail: {"error": "a-b = c"}', "naïve 日本", "http://127.0.0.1:1/v1"):
        assert cells.text(words) == words


def test_unobserved_is_empty_and_zero_is_zero() -> None:
    assert (cells.number(None), cells.number(0), cells.number(0.0)) == ("", "0", "0")
    assert (cells.seconds(None), cells.seconds(0.0), cells.text(None)) == ("", "0", "")


@pytest.mark.parametrize(
    ("value", "cell"),
    [
        (481280.0, "481280"),
        (0.25, "0.25"),
        (math.nan, "NaN"),
        (math.inf, "inf"),
        (-math.inf, "-inf"),
        (1e300, "1e+300"),
    ],
)
def test_numbers_are_exact_and_whole_ones_have_no_point(value: float, cell: str) -> None:
    assert cells.number(value) == cell


@given(st.floats(allow_nan=False))
@settings(deadline=None)
def test_a_number_reads_back_as_itself(value: float) -> None:
    assert float(cells.number(value)) == value


@pytest.mark.parametrize(("value", "cell"), [(1.5, "1.5"), (0.0000004, "0"), (12.3456789, "12.345679"), (100.0, "100")])
def test_seconds_are_given_to_the_microsecond(value: float, cell: str) -> None:
    assert cells.seconds(value) == cell
