"""Halving finds what is there in the launches it promised, and makes up nothing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvstress.search.conclusion import Conclusion, Status, conclude
from kvstress.search.outcome import Outcome, Seen, Showing
from kvstress.search.steady import left, marks, next_cells, worst_case

LETTERS = {
    "F": Outcome(showing=Showing.FAILS, first_failure=12),
    "S": Outcome(showing=Showing.SURVIVED, exposure=40),
    "N": Outcome(showing=Showing.NOT_EXERCISED, exposure=40),
    "R": Outcome(showing=Showing.REFUSED, launches=2),
    "U": Outcome(showing=Showing.UNJUDGED),
}


def searched(server: str) -> list[Seen]:
    """The probes of a search on a server given by one letter a value."""
    seen: list[Seen] = []
    while cells := next_cells(len(server), seen):
        seen += [Seen(cell=cell, outcome=LETTERS[server[cell.index]]) for cell in cells]
        assert len(seen) <= 4 * len(server), "a search ends"
    return seen


def answer(server: str) -> Conclusion:
    return conclude(len(server), searched(server))


@given(st.integers(1, 400), st.integers(1, 400))
def test_one_change_is_found_to_its_neighbours_in_the_promised_launches(fails: int, passes: int) -> None:
    server = "F" * fails + "S" * passes
    seen = searched(server)
    found = conclude(len(server), seen).boundary
    assert found is not None
    assert (found.failing, found.passing, found.confidence) == (fails - 1, fails, None)
    assert len(seen) <= worst_case(len(server))[0]


def test_40_to_96_at_1_takes_at_most_8_launches_wherever_the_boundary_lies() -> None:
    assert worst_case(57)[0] == 8
    assert max(len(searched("F" * fails + "S" * (57 - fails))) for fails in range(58)) <= 8


@given(st.integers(1, 100), st.integers(1, 100), st.integers(1, 100))
def test_a_refusal_to_start_has_a_boundary_of_its_own(refused: int, fails: int, passes: int) -> None:
    server = "R" * refused + "F" * fails + "S" * passes
    seen = searched(server)
    found = conclude(len(server), seen)
    if any(one.outcome.fails for one in seen):
        assert found.boundary is not None
        assert (found.boundary.failing, found.boundary.passing) == (refused + fails - 1, refused + fails)
    assert found.refused_below == refused
    assert len(seen) <= worst_case(len(server))[1]


def test_failures_at_the_high_end_are_found_too() -> None:
    found = answer("SSSSSSSSFFFFF").boundary
    assert found is not None
    assert (found.failing, found.passing) == (8, 7)


def test_refusals_at_the_high_end_are_told_apart() -> None:
    found = answer("FFFFFSSSSSSSSRRRR")
    assert found.refused_above == 12
    assert found.refused_below is None


@pytest.mark.parametrize(
    ("server", "status"),
    [
        ("F" * 57, Status.FAILS_EVERYWHERE),
        ("S" * 30 + "N" * 27, Status.NO_FAILURE),
        ("R" * 57, Status.NOTHING_STARTS),
        ("U" * 57, Status.NOT_JUDGED),
        ("F" * 20 + "S" * 10 + "F" * 27, Status.NOT_MONOTONE),
    ],
)
def test_without_both_ends_there_is_no_boundary(server: str, status: Status) -> None:
    found = answer(server)
    assert found.status is status
    assert found.boundary is None


def test_where_the_ends_agree_a_few_values_between_are_looked_at() -> None:
    assert sorted(marks(searched("F" * 57))) == [0, 14, 28, 42, 56]


def test_a_command_that_never_starts_is_given_up_after_three_values() -> None:
    assert len(searched("R" * 57)) == 3


def test_a_ragged_edge_is_told_with_its_values() -> None:
    found = answer("F" * 29 + "SFSFSF" + "S" * 22)
    assert found.status is Status.NOT_MONOTONE
    assert (28, 29) in found.changes


def test_a_value_that_cannot_be_judged_is_tried_twice_and_then_gone_around() -> None:
    server = "F" * 28 + "U" + "F" * 3 + "S" * 25
    seen = searched(server)
    assert sum(one.cell.index == 28 for one in seen) == 2
    found = conclude(57, seen).boundary
    assert found is not None
    assert (found.failing, found.passing) == (31, 32)


def test_an_end_that_cannot_be_judged_does_not_hide_the_failures_behind_it() -> None:
    found = answer("U" * 10 + "F" * 30 + "S" * 17).boundary
    assert found is not None
    assert (found.failing, found.passing) == (39, 40)


@given(st.text("FSNRU", min_size=2, max_size=80))
def test_any_server_is_searched_to_an_end_and_every_boundary_was_seen(server: str) -> None:
    seen = searched(server)
    found = conclude(len(server), seen)
    if found.boundary is not None:
        probed = {one.cell.index for one in seen}
        assert {found.boundary.failing, found.boundary.passing} <= probed
        assert server[found.boundary.failing] == "F"
        assert server[found.boundary.passing] in "SN"


def test_what_is_left_falls_to_nothing() -> None:
    server = "F" * 21 + "S" * 36
    seen = searched(server)
    assert left(57, ()) == 8
    assert left(57, seen) == 0
