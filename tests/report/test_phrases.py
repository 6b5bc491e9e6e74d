"""The sentences that page, terminal and summaries share."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvstress.core.verdict import FirstFailure, Verdict
from kvstress.report import phrases
from tests.report import runs


@pytest.mark.parametrize(
    ("steps", "rate"), [(143, "2.1 %"), (1, "95 %"), (14, "20 %"), (89, "3.4 %"), (100_000, "0.0030 %")]
)
def test_the_bound_is_what_n_prompts_without_a_failure_leave_possible(steps: int, rate: str) -> None:
    assert phrases.bound(steps) == rate


@given(st.integers(1, 10**9))
def test_the_bound_is_never_zero_and_never_below_the_exact_one(steps: int) -> None:
    shown = float(phrases.bound(steps).removesuffix(" %")) / 100
    assert shown > 0
    # (1 - shown)^n <= 0.05 is the definition, solved for nothing; rounding up may only make it smaller.
    assert (1 - shown) ** steps <= 0.05 + 1e-6


def test_no_failure_is_right_censored_and_nothing_done_says_nothing() -> None:
    assert phrases.censored(143) == "no failure in 143 prompts: below 2.1 % a prompt, 95 %"
    assert phrases.censored(1) == "no failure in 1 prompt: below 95 % a prompt, 95 %"
    assert "nothing is known" in phrases.censored(0)
    assert "nothing is known" in phrases.censored(None)


def test_a_pool_with_a_token_left_is_not_at_100_percent() -> None:
    assert phrases.percent(0.99997) == "99.9 %"
    assert phrases.percent(1.0) == "100 %"
    assert phrases.percent(0.0) == "0 %"
    assert phrases.percent(0.29) == "29 %"


def test_a_session_failure_names_session_and_turn() -> None:
    first = FirstFailure(step=40, phase=None, signature="x", session="a", turn=3, exposure=40)
    assert phrases.failure(first) == "prompt 40 (session a, turn 3)"


def test_exit_codes_are_said_with_the_verdict() -> None:
    assert "Exit code 1" in phrases.exit_meaning(runs.failed())
    assert "Exit code 0" in phrases.exit_meaning(runs.passed())
    assert "Exit code 125" in phrases.exit_meaning(runs.invalid())
    assert "not a pass" in phrases.exit_meaning(runs.invalid())
    assert "Exit code 130" in phrases.exit_meaning(runs.passed(stopped="interrupted", verdict=Verdict.INCONCLUSIVE))


def test_the_deciding_finding_is_the_first_failures_own() -> None:
    other = runs.finding(3, "something else", verdict=Verdict.INCONCLUSIVE)
    judgement = runs.failed(findings=(other, runs.finding(16)))
    assert phrases.deciding(judgement) == runs.finding(16)
    assert phrases.failing_request(judgement) == "s16.warm"


def test_a_failing_request_is_taken_from_the_evidence_when_it_is_another() -> None:
    judgement = runs.failed(findings=(runs.finding(16, evidence=("s16.reask",)),))
    assert phrases.failing_request(judgement) == "s16.reask"
    assert phrases.failing_request(runs.passed()) is None
