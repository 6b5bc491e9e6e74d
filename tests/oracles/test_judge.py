"""The judge: first failure, censoring, coverage, and the rule that nothing judged is no pass."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvstress.core.events import Event, Stop
from kvstress.core.exchange import Exchange
from kvstress.core.manifest import Manifest
from kvstress.core.outcome import Kind, Outcome
from kvstress.core.plan import Origin
from kvstress.core.verdict import Judgement, Verdict, worst
from kvstress.oracles import judge as judging
from kvstress.oracles.judge import ORACLES, Judge, judge
from tests.oracles.runs import answer, ended, manifest, sent, step


def _judged(*events: Event, coverage: tuple[str, ...] = ()) -> Judgement:
    return judge(manifest(coverage=coverage), events)


def test_a_run_without_failures_passes_and_is_right_censored_at_its_steps() -> None:
    judgement = _judged(*step(0), *step(1), *step(2), ended())
    assert (judgement.verdict, judgement.censored_at, judgement.first_failure) == (Verdict.PASS, 3, None)
    assert judgement.requests == {"completed": 6}


def test_the_first_failing_step_and_phase_are_named_with_the_servers_words() -> None:
    words = "prepared model reported device error 6"
    judgement = _judged(*step(0), *step(1, Kind.OK, Kind.SERVER_ERROR, words=words), ended(Stop.FAILURE))
    assert judgement.verdict is Verdict.FAIL
    first = judgement.first_failure
    assert first is not None
    assert (first.step, first.phase, first.exposure) == (1, "warm", 1)
    assert judgement.why == f"prompt 1, warm: HTTP 500; the server said: {words}"
    assert first.signature == f"STATUS:server-error:500:{words}"


def test_a_later_failure_does_not_replace_the_first() -> None:
    events = [*step(0, Kind.OK, Kind.SERVER_ERROR, words="one"), *step(1, Kind.RESET, words="two"), ended()]
    first = _judged(*events).first_failure
    assert first is not None and first.step == 0


def test_a_run_that_judged_nothing_is_inconclusive() -> None:
    judgement = _judged(ended())
    assert judgement.verdict is Verdict.INCONCLUSIVE
    assert judgement.censored_at is None


def test_a_run_of_lost_and_cancelled_requests_has_judged_nothing() -> None:
    asked = sent(0)
    assert _judged(asked, answer(asked, Kind.CANCELLED, status=None), ended()).verdict is Verdict.INCONCLUSIVE


def test_a_killed_run_is_inconclusive_and_its_open_request_is_lost() -> None:
    judgement = _judged(*step(0), sent(1, "prime"))
    assert judgement.verdict is Verdict.INCONCLUSIVE
    assert "cut off after 1 step" in judgement.why
    assert judgement.requests == {"completed": 2, "lost": 1}


def test_a_killed_run_that_had_failed_stays_failed() -> None:
    assert _judged(*step(0, Kind.SERVER_ERROR, words="boom")).verdict is Verdict.FAIL


def test_a_request_sent_again_after_a_resume_counts_the_earlier_one_as_lost() -> None:
    judgement = _judged(sent(0, "prime"), *step(0), ended())
    assert judgement.requests == {"completed": 2, "lost": 1}
    assert judgement.verdict is Verdict.PASS


def test_unreached_coverage_is_invalid_and_says_what_to_change() -> None:
    judgement = _judged(*step(0), ended(), coverage=("full",))
    assert judgement.verdict is Verdict.INVALID
    assert "full" in judgement.why


def test_a_failure_outranks_unreached_coverage() -> None:
    assert _judged(*step(0, Kind.SERVER_ERROR), ended(), coverage=("full",)).verdict is Verdict.FAIL


def test_an_oracle_that_crashes_is_inconclusive_not_a_verdict_about_the_server(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Crashing:
        def __init__(self, manifest: Manifest) -> None:
            del manifest

        def see(self, event: Event, asked: object) -> tuple[()]:
            if isinstance(event, Exchange):
                raise ZeroDivisionError("oracle bug")
            return ()

    monkeypatch.setattr(judging, "ORACLES", (("STATUS", Crashing),))
    judgement = _judged(*step(0), ended())
    assert judgement.verdict is Verdict.INCONCLUSIVE
    assert "ZeroDivisionError" in judgement.why


def test_findings_are_capped_but_the_first_failure_is_always_kept() -> None:
    noise = [
        event
        for index in range(600)
        for event in step(index, Kind.TOO_LONG, words=f"no room {index} of {chr(97 + index % 26)}")
    ]
    judgement = _judged(*noise, *step(601, Kind.SERVER_ERROR, words="boom"), ended())
    assert len(judgement.findings) <= 501
    assert judgement.verdict is Verdict.FAIL and "boom" in judgement.why


def test_a_million_like_failures_keep_twenty_findings() -> None:
    fold = Judge(manifest())
    for index in range(2_000):
        for event in step(index, Kind.SERVER_ERROR, words="same"):
            fold.see(event)
    assert len(fold.judgement().findings) == 20


kinds = st.sampled_from(list(Kind))
steps = st.lists(st.lists(kinds, min_size=0, max_size=2), max_size=8)


@given(steps)
def test_no_oracle_raises_on_any_sequence_of_outcomes(run: list[list[Kind]]) -> None:
    events = [event for index, each in enumerate(run) for event in step(index, *each, words="w")]
    judgement = _judged(*events, ended())
    assert not any(":crashed:" in finding.signature for finding in judgement.findings)


@given(steps, st.randoms(use_true_random=False))
def test_events_in_any_order_never_crash_an_oracle(run: list[list[Kind]], random: object) -> None:
    events = [event for index, each in enumerate(run) for event in step(index, *each, words="w")]
    random.shuffle(events)  # type: ignore[attr-defined]
    assert not any(":crashed:" in finding.signature for finding in _judged(*events).findings)


@given(steps)
def test_judging_live_equals_judging_stored(run: list[list[Kind]]) -> None:
    events = [*(event for index, each in enumerate(run) for event in step(index, *each, words="w")), ended()]
    live = Judge(manifest())
    for event in events:
        live.see(event)
        live.judgement()
    assert live.judgement() == judge(manifest(), events)


@given(steps)
def test_the_order_of_the_oracles_does_not_matter(run: list[list[Kind]]) -> None:
    events = [*(event for index, each in enumerate(run) for event in step(index, *each, words="w")), ended()]
    forward = judge(manifest(), events)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(judging, "ORACLES", tuple(reversed(ORACLES)))
        backward = judge(manifest(), events)
    assert (forward.verdict, forward.steps, forward.requests) == (backward.verdict, backward.steps, backward.requests)
    assert sorted(map(repr, forward.findings)) == sorted(map(repr, backward.findings))


verdicts = st.sampled_from(list(Verdict))


@given(st.lists(verdicts), st.lists(verdicts))
def test_verdicts_form_a_lattice(left: list[Verdict], right: list[Verdict]) -> None:
    if left and right:
        assert worst([*left, *right]) == worst([worst(left), worst(right)]) == worst([*right, *left])
    assert worst([]) is Verdict.INCONCLUSIVE


def test_every_kind_belongs_to_exactly_one_of_three_questions() -> None:
    """A failing outcome that no oracle claims would be a silent pass; one claimed twice would be counted twice."""
    for stream in (False, True):
        for kind in Kind:
            asked = sent(0, stream=stream)
            judgement = _judged(asked, answer(asked, kind, status=200 if stream else 500, words="w"), ended())
            failing = kind not in (Kind.OK, Kind.CANCELLED, Kind.KILLED)
            assert len(judgement.findings) == int(failing), (kind, judgement.findings)
            assert Outcome(answer(asked, kind).outcome)


def test_a_server_that_died_of_it_is_quoted_with_what_it_said_afterwards() -> None:
    probe = sent(None, "health", origin=Origin.ASIDE)
    dead = answer(probe, Kind.SERVER_ERROR, status=503, words="CB worker is dead")
    judgement = _judged(*step(0, Kind.SERVER_ERROR, words="Internal Server Error"), probe, dead, ended(Stop.FAILURE))
    assert judgement.why.startswith("prompt 0, prime: HTTP 500; the server said: Internal Server Error [afterwards")
    assert judgement.why.endswith("the server said: CB worker is dead]")
    assert judgement.steps == 1 and judgement.first_failure is not None and judgement.first_failure.step == 0


def test_a_server_that_fails_while_it_is_sized_is_judged_by_its_first_prompt() -> None:
    sizing = sent(None, "sizing", origin=Origin.SIZING)
    broken = answer(sizing, Kind.SERVER_ERROR, status=500, words="one")
    judgement = _judged(sizing, broken, *step(0, Kind.SERVER_ERROR, words="two"), ended(Stop.FAILURE))
    assert judgement.why == "prompt 0, prime: HTTP 500; the server said: two"


def test_a_run_in_which_all_was_shed_judges_nothing_and_says_what_was_said() -> None:
    judgement = _judged(*step(0, Kind.OVERLOADED, words="slow down"), ended(), coverage=("hit", "full"))
    assert judgement.verdict is Verdict.INCONCLUSIVE
    assert "slow down" in judgement.why


def test_a_malformed_answer_is_told_with_what_is_wrong_with_it() -> None:
    asked = sent(0, "prime")
    wrong = replace(answer(asked, Kind.MALFORMED), violations=("NaN is no JSON",))
    assert "the answer does not parse (NaN is no JSON)" in _judged(asked, wrong, ended()).why
