"""Searches of simulated flaky servers keep what they promise; `python -m tests.search.study` prints the whole study."""

from statistics import mean

import pytest

from kvstress.search.conclusion import Status, conclude
from kvstress.search.flaky import next_cells
from kvstress.search.outcome import Outcome, Seen, Showing
from kvstress.search.posterior import prior
from tests.search import study

SEARCHES = 100


@pytest.mark.parametrize("name", study.MONOTONE)
def test_the_interval_holds_the_true_boundary_and_is_narrow(name: str) -> None:
    found = study.study(study.MONOTONE[name], SEARCHES)
    assert found.covered >= 0.92
    assert found.width <= 3


def test_plain_bisection_needs_more_probes_for_the_same_coverage() -> None:
    found = {name: study.study(server, SEARCHES) for name, server in study.MONOTONE.items()}
    plain = [study.rival(study.MONOTONE[name], SEARCHES, one.covered) for name, one in found.items()]
    # Nobody knows beforehand which server he has, so plain bisection must repeat as often as the worst of them wants.
    assert mean(one.probes for one in found.values()) < max(probes for _, probes in plain)


def test_a_server_with_two_falls_is_called_so_and_the_others_are_not() -> None:
    assert study.study(study.non_monotone, SEARCHES).called_uneven >= 0.92
    assert study.study(study.step, SEARCHES).called_uneven <= 0.05


FAILS, SURVIVED = Outcome(showing=Showing.FAILS), Outcome(showing=Showing.SURVIVED, exposure=40)
REFUSED = Outcome(showing=Showing.REFUSED)


def searched(outcomes: list[Outcome], most: int = 6, q: float = 0.5) -> list[Seen]:
    """A search of a server that always shows `outcomes[index]`."""
    seen: list[Seen] = []
    while cells := next_cells(len(outcomes), seen, q=q, most=most):
        seen += [Seen(cell=cell, outcome=outcomes[cell.index]) for cell in cells]
        assert len(seen) < 500
    return seen


def test_failures_at_the_high_end_are_searched_as_well() -> None:
    outcomes = [SURVIVED] * 30 + [FAILS] * 11
    found = conclude(41, searched(outcomes), repeats=6)
    assert found.boundary is not None
    assert found.boundary.passing <= 29 and found.boundary.failing >= 30
    assert found.boundary.failing - found.boundary.passing <= 5


def test_values_that_refuse_to_start_are_left_out_of_the_posterior_and_have_their_own_edge() -> None:
    outcomes = [REFUSED] * 9 + [FAILS] * 12 + [SURVIVED] * 20
    seen = searched(outcomes)
    found = conclude(41, seen, repeats=6)
    assert found.refused_below == 9
    assert found.boundary is not None
    assert found.boundary.failing <= 20 < found.boundary.passing
    assert sum(one.outcome.showing is Showing.REFUSED for one in seen) <= 6


def test_a_server_that_never_fails_gets_no_boundary() -> None:
    assert conclude(41, searched([SURVIVED] * 41, most=12), repeats=12).status is Status.NO_FAILURE


def test_a_server_that_always_fails_gets_no_boundary() -> None:
    assert conclude(41, searched([FAILS] * 41, most=12), repeats=12).status is Status.FAILS_EVERYWHERE


def test_a_failure_says_more_than_a_pass_because_only_it_is_certain() -> None:
    before = prior(41, 0.5)
    failed, passed = before.after(20, 1).boundary(), before.after(20, 0).boundary()
    assert failed[:20].sum() < passed[22:].sum(), "few boundaries below a failure remain, more above a pass"


def test_no_value_is_probed_more_often_than_allowed() -> None:
    seen = searched([FAILS] * 20 + [SURVIVED] * 21, most=3)
    assert max(one.cell.repeat for one in seen) <= 3


def test_a_server_that_fails_seldom_is_not_said_to_have_a_boundary_nor_to_be_free_of_failures() -> None:
    seen: list[Seen] = []
    while cells := next_cells(41, seen, q=0.5, most=12):
        # Every ninth probe fails, wherever it is.
        seen += [
            Seen(cell=cell, outcome=FAILS if (len(seen) + at) % 9 == 4 else SURVIVED) for at, cell in enumerate(cells)
        ]
        assert len(seen) < 500
    found = conclude(41, seen, repeats=12)
    assert found.boundary is None
    assert found.status in (Status.SELDOM, Status.OPEN)
