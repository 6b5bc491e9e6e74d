"""Markers: whose a string is, is computed from the run's key alone."""

from hypothesis import given
from hypothesis import strategies as st

from kvstress.core.markers import LENGTH, SLOTS, Markers

ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
NUMBERS = st.integers(0, 2**32 - 1)
SLOT = st.integers(0, SLOTS - 1)


@given(NUMBERS, SLOT)
def test_a_marker_names_its_prompt_and_slot(number: int, slot: int) -> None:
    marker = Markers("w/0").marker(number, slot)
    assert len(marker) == LENGTH and set(marker) <= set(ALPHABET)
    assert Markers("w/0").read(marker) == (number, slot)


@given(NUMBERS, SLOT)
def test_another_seed_does_not_know_it(number: int, slot: int) -> None:
    assert Markers("w/1").read(Markers("w/0").marker(number, slot)) is None


@given(st.text(ALPHABET, min_size=LENGTH, max_size=LENGTH))
def test_no_other_string_is_a_marker(text: str) -> None:
    assert Markers("w/0").read(text) is None


@given(NUMBERS, SLOT, st.integers(0, LENGTH - 1), st.sampled_from(ALPHABET))
def test_one_wrong_letter_makes_it_none(number: int, slot: int, place: int, letter: str) -> None:
    marker = Markers("w/0").marker(number, slot)
    changed = marker[:place] + letter + marker[place + 1 :]
    assert changed == marker or Markers("w/0").read(changed) is None


def test_what_has_no_form_of_a_marker_is_none() -> None:
    assert [Markers("w/0").read(text) for text in ("", "short", "a" * 16, "É" * 16, "A" * 17)] == [None] * 5


def test_thirty_thousand_markers_are_distinct() -> None:
    markers = Markers("w/0")
    assert len({markers.marker(number, slot) for number in range(10_000) for slot in range(SLOTS)}) == 30_000
