"""A gate sentence is read as it was meant, or refused with what could stand there."""

import pytest

from kvstress.core.errors import UsageError
from kvstress.gate.sentence import Bound, Latency, Sign, of_workload, parse


def test_a_sentence_is_a_metric_a_sign_and_a_bound() -> None:
    got = parse("  first_failure   >= baseline ")
    assert (got.metric, got.sign, got.text) == ("first_failure", Sign.AT_LEAST, "first_failure >= baseline")
    assert got.bound == Bound(factor=1.0, offset=0.0) and got.needs_baseline


@pytest.mark.parametrize(
    ("words", "bound"),
    [
        ("baseline - 2", Bound(factor=1.0, offset=-2.0)),
        ("baseline+3", Bound(factor=1.0, offset=3.0)),
        ("0.95x", Bound(factor=0.95, offset=0.0)),
        ("1.10 x baseline", Bound(factor=1.1, offset=0.0)),
        ("1,000", Bound(factor=None, offset=1000.0)),
    ],
)
def test_bounds_are_numbers_factors_or_the_baseline(words: str, bound: Bound) -> None:
    assert parse(f"capacity >= {words}").bound == bound


def test_a_latency_has_a_word_a_phase_and_a_quantile_and_its_bound_a_unit() -> None:
    got = parse("ttft_warm_p95 <= 200ms")
    assert got.latency == Latency(word="ttft", phase="warm", quantile=0.95)
    assert got.bound.offset == pytest.approx(0.2) and not got.needs_baseline
    assert parse("e2e_p50 < 3").latency == Latency(word="e2e", phase=None, quantile=0.5)
    assert parse("itl_turn_two_max < 3").latency == Latency(word="itl", phase="turn_two", quantile=1.0)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("first_failur >= baseline", "did you mean 'first_failure'"),
        ("tttf_warm_p95 <= 1.1x", "did you mean 'ttft_warm_p95'"),
        ("zebra == 1", "there are first_failure"),
        ("first_failure => baseline", "no sign '=>'"),
        ("first_failure", "expected METRIC SIGN BOUND"),
        ("", "expected METRIC SIGN BOUND"),
        ("capacity >= nan", "cannot read 'nan'"),
        ("capacity >= -inf", "cannot read '-inf'"),
        ("ttft_warm_p95 <= 3 parsecs", "cannot read '3 parsecs': expected a time"),
        ("findings.new <= baseline", "has no value in a baseline"),
    ],
)
def test_what_cannot_be_read_is_refused_with_what_could_stand_there(text: str, said: str) -> None:
    with pytest.raises(UsageError) as refused:
        parse(text)
    assert said in str(refused.value)


def test_a_workload_states_its_gate_as_conditions_by_metric() -> None:
    table = {"first_failure": ">= baseline", "findings": {"new": "== 0"}, "steps": [">= 16", "<= 200"]}
    got = [sentence.text for sentence in of_workload(table)]
    assert got == ["first_failure >= baseline", "findings.new == 0", "steps >= 16", "steps <= 200"]


def test_a_gate_that_is_no_condition_is_refused() -> None:
    with pytest.raises(UsageError, match="expected a condition"):
        of_workload({"first_failure": 16})
