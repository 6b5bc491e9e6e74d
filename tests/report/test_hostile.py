"""What a server says is shown, and does nothing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvstress.report.hostile import PAGE_CAP, encodable, line, tame

ANY_TEXT = st.text(st.characters(exclude_categories=()), max_size=300)


def test_escapes_overrides_and_surrogates_are_spelt_out() -> None:
    assert tame("\x1b[31mred\x07") == r"\x1b[31mred\x07"
    assert tame("abc\u202edcba") == r"abc\u202edcba"
    assert tame("half \ud83d") == r"half \ud83d"
    assert tame("\x00\ufffe\u2066\ufeff") == r"\x00\ufffe\u2066\ufeff"


def test_ordinary_text_of_any_script_stays_as_it_is() -> None:
    assert tame("Gerät 6: שגיאה, 错误, 🔥\n\tmore") == "Gerät 6: שגיאה, 错误, 🔥\n\tmore"


def test_a_lone_carriage_return_cannot_overwrite_a_line() -> None:
    assert tame("FAIL\rPASS\r\nend") == "FAIL\\x0dPASS\nend".replace("x0d", "r")


def test_a_megabyte_is_cut_and_says_by_how_much() -> None:
    shown = tame("x" * 1_000_000)
    assert len(shown) < 3 * PAGE_CAP
    assert "more characters" in shown


@given(ANY_TEXT)
def test_tamed_text_can_be_written_as_utf8_and_carries_no_control_character(text: str) -> None:
    shown = tame(text)
    shown.encode("utf-8")
    assert not [c for c in shown if (ord(c) < 32 and c not in "\t\n") or 0x7F <= ord(c) <= 0x9F]


@given(ANY_TEXT, st.integers(1, 50))
def test_a_line_is_one_line_of_bounded_length(text: str, length: int) -> None:
    shown = line(text, length)
    assert len(shown.splitlines()) <= 1
    assert len(shown) <= 10 * length + 1


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp1252", "utf-8"])
@given(text=ANY_TEXT)
def test_encodable_text_never_fails_to_encode(encoding: str, text: str) -> None:
    shown = encodable(tame(text), encoding)
    assert shown.encode(encoding).decode(encoding) == shown


def test_our_own_typography_has_a_plain_form() -> None:
    assert encodable("“6” · −3…", "ascii") == '"6" | -3...'
