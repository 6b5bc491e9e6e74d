"""COLDWARM: what counts as a difference between a cold and a warm answer, and what is noise."""

from dataclasses import replace
from typing import Any

import pytest

from kvstress.core.cold import PHASE, RESENT, at_twin
from kvstress.core.events import Event, RequestSent, RunEnded, Stop
from kvstress.core.exchange import Choice, Exchange, TokenLogprob, Usage
from kvstress.core.outcome import Kind
from kvstress.core.plan import Origin
from kvstress.core.verdict import Finding, Verdict
from kvstress.oracles.coldwarm import ColdWarm
from kvstress.oracles.judge import judge
from tests.oracles.runs import answer, ended, manifest, sent

Word = tuple[str, float]
FIVE: list[Word] = [("a", -0.01), ("b", -0.02), ("c", -0.01), ("d", -0.02), ("e", -0.01)]
SURE, NEAR = -9.0, -0.9


def asked(step: int | None, phase: str, recipe: str = "prompt", **more: Any) -> RequestSent:
    return replace(sent(step, phase), recipe=recipe, options='{"temperature":0.0,"logprobs":true}', **more)


def said(
    request: RequestSent, words: list[Word], second: float = SURE, cached: int | None = None
) -> tuple[RequestSent, Exchange]:
    """An answer of these tokens; each has one alternative, of log-probability `second`."""
    tokens = tuple(TokenLogprob(token=word, logprob=p, top=((word, p), ("other", second))) for word, p in words)
    usage = Usage(prompt_tokens=100, completion_tokens=len(words), cached_tokens=cached)
    one = Choice(index=0, text="".join(word for word, _ in words), finish_reason="stop", logprobs=tokens)
    return request, replace(answer(request), choices=(one,), usage=usage)


def cold(number: int, how: str = "salted") -> RequestSent:
    return asked(None, f"{PHASE}{how}", origin=Origin.ASIDE, request=f"cold{number}")


def findings(*pairs: tuple[RequestSent, Exchange], end: bool = False) -> list[Finding]:
    oracle, found = ColdWarm(manifest()), []
    for request, exchange in pairs:
        found += [*oracle.see(request, None), *oracle.see(exchange, request)]
    return [*found, *(oracle.see(RunEnded(at=9.0, stop=Stop.PLAN), None) if end else ())]


def changed(place: int, word: Word) -> list[Word]:
    return [*FIVE[:place], word, *FIVE[place + 1 :]]


def test_a_confident_token_that_changes_out_of_the_cache_is_found() -> None:
    first, warm = said(asked(3, "prime"), FIVE), said(asked(3, "warm"), changed(2, ("other", -0.1)))
    (finding,) = findings(first, warm)
    assert (finding.verdict, finding.step, finding.phase) == (Verdict.FAIL, 3, "warm")
    assert "first sending" in finding.summary and finding.measured == "8.99 nat"


@pytest.mark.parametrize(
    "warm",
    [FIVE, FIVE[:2], [(word, p - 0.4) for word, p in FIVE]],
    ids=["the same", "shorter", "log-probabilities a little off"],
)
def test_noise_is_no_difference(warm: list[Word]) -> None:
    assert findings(said(asked(3, "prime"), FIVE), said(asked(3, "warm"), warm)) == []


@pytest.mark.parametrize(("equal", "seen"), [(300, True), (511, True), (512, False)])
def test_an_answer_that_parts_late_is_read_up_to_512_tokens(equal: int, seen: bool) -> None:
    letters: list[Word] = [("letter", -0.01)] * equal
    first, warm = said(asked(3, "prime"), [*letters, ("a", -0.01)]), said(asked(3, "warm"), [*letters, ("b", -0.01)])
    assert [one.measured for one in findings(first, warm)] == (["8.99 nat"] if seen else [])


@pytest.mark.parametrize(("others", "known"), [(127, True), (128, False)])
def test_the_answers_kept_are_65_536_tokens_in_all_and_the_oldest_go_first(others: int, known: bool) -> None:
    long: list[Word] = [("letter", -0.01)] * 512
    between = [said(asked(number + 10, "prime", f"prompt {number}"), long) for number in range(others)]
    wrong = said(asked(3, "warm"), [("other", -0.01), *long[1:]], cached=96)
    assert bool(findings(said(asked(3, "prime"), long), *between, wrong)) is known


def test_two_tokens_that_nearly_tied_may_change_places() -> None:
    near = [(word, -0.6) for word, _ in FIVE]
    warm = [*near[:2], ("other", -0.6), *near[3:]]
    assert findings(said(asked(3, "prime"), near, NEAR), said(asked(3, "warm"), warm, NEAR)) == []


def test_a_log_probability_far_off_is_found_under_equal_text() -> None:
    (finding,) = findings(said(asked(3, "prime"), FIVE), said(asked(3, "warm"), changed(4, ("e", -1.5))))
    assert finding.signature == "COLDWARM:differs"


def test_a_token_made_likely_is_found_where_the_cold_answer_was_unsure() -> None:
    # The cold answer hardly preferred its own; but what the other said it had far below what it was said with.
    cold_one = said(cold(0), [("a", -3.7)], second=-3.8)
    warm = said(asked(3, "warm"), [("stutter", -0.1)], second=-5.0)
    (finding,) = findings(cold_one, warm)
    assert "at token 0, where it leaves the cold answer" in finding.summary
    assert finding.measured == "3.70 nat"


def test_an_aside_sent_again_is_cold_only_where_the_server_says_that_nothing_was_cached() -> None:
    warm = said(asked(3, "warm"), changed(2, ("other", -0.1)), cached=0)
    assert [finding.measured for finding in findings(warm, said(cold(0, RESENT), FIVE, cached=0))] == ["8.99 nat"]
    for cached in (None, 64):
        assert findings(warm, said(cold(0, RESENT), FIVE, cached=cached)) == []


def test_a_first_answer_out_of_the_cache_is_no_cold_one() -> None:
    hit = said(asked(3, "prime"), FIVE, cached=96)
    found = findings(hit, said(asked(3, "warm"), changed(2, ("x", -0.1)), cached=96), end=True)
    assert [one.verdict for one in found] == [Verdict.INCONCLUSIVE]
    assert "--twin" in found[0].summary


def test_a_cold_aside_judges_the_answers_that_came_before_it() -> None:
    wrong = said(asked(3, "warm"), changed(2, ("other", -0.1)), cached=96)
    (finding,) = findings(wrong, said(cold(0), FIVE, cached=0))
    assert (finding.step, finding.phase, finding.evidence) == (3, "warm", ("s3.warm", "cold0"))


def test_what_two_cold_answers_differ_in_is_no_finding_and_widens_the_limit() -> None:
    def close(word: str) -> list[Word]:
        return [("a", -0.5), (word, -0.5)]

    noise = (said(cold(0), close("b"), -1.2), said(cold(1), close("other"), -1.2))
    warm = said(asked(3, "warm"), close("other"), -1.2)
    assert len(findings(noise[0], warm)) == 1
    assert findings(*noise, warm) == []


def test_in_company_more_is_noise() -> None:
    near: list[Word] = [("a", -0.5), ("b", -0.5)]
    first, other = said(asked(3, "prime"), near, -1.2), said(asked(4, "prime", "another"), FIVE)
    warm = said(asked(3, "warm"), [("a", -0.5), ("other", -0.5)], -1.2)
    assert len(findings(first, warm)) == 1
    oracle = ColdWarm(manifest())
    for event in (first[0], other[0]):
        oracle.see(event, None)
    for request, exchange in (first, other, warm):
        assert oracle.see(exchange, request) == ()


def test_only_greedy_answers_with_log_probabilities_are_compared() -> None:
    first, warm = said(asked(3, "prime"), FIVE), said(asked(3, "warm"), changed(2, ("x", -0.1)))
    hot = [(replace(request, options='{"temperature":1.0}'), exchange) for request, exchange in (first, warm)]
    bare = [(request, replace(exchange, choices=())) for request, exchange in (first, warm)]
    assert findings(*hot, end=True) == findings(*bare, end=True) == []


def noise(request: RequestSent, word: str, p: float) -> tuple[RequestSent, Exchange]:
    return said(
        replace(request, max_tokens=100), [(word, p)] * 70 if word == "!" else [(f"w{n}", p) for n in range(70)]
    )


def events_of(*pairs: tuple[RequestSent, Exchange]) -> list[Event]:
    return [event for pair in pairs for event in pair]


@pytest.mark.parametrize(("oracle", "word", "p"), [("DEGEN", "!", -0.1), ("LOGPROB", "w", -7.6)])
def test_noise_from_the_first_answer_on_counts_where_cold_answers_are_clean(oracle: str, word: str, p: float) -> None:
    warm = [noise(asked(step, "warm", f"prompt {step}"), word, p) for step in range(3)]
    clean = [replace(cold(step), recipe=f"prompt {step}") for step in range(3)]
    found = judge(manifest((oracle,)), events_of(*warm, *(noise(one, "w", -0.1) for one in clean)))
    assert [one.oracle for one in found.findings if one.verdict is Verdict.FAIL][:1] == [oracle]
    habit = judge(manifest((oracle,)), events_of(*warm, *(noise(one, word, p) for one in clean)))
    assert habit.findings == ()


def test_the_references_that_were_used_are_named_at_the_end() -> None:
    last = findings(said(asked(3, "prime"), FIVE), said(asked(3, "warm"), FIVE), said(cold(0), FIVE), end=True)[-1]
    assert last.verdict is Verdict.PASS
    assert "first sending" in last.summary and "cache salt" in last.summary


def test_what_a_twin_does_is_no_word_about_the_server_under_test() -> None:
    request = replace(cold(0, "twin"), endpoint=at_twin("/v1/chat/completions"))
    broken = replace(answer(request, Kind.SERVER_ERROR, status=500))
    step, pair = sent(0), sent(0)
    events: list[Event] = [step, answer(pair), request, broken, ended()]
    judgement = judge(manifest(("STATUS", "STREAM", "SURVIVAL", "COLDWARM", "RECONCILE")), events)
    assert judgement.verdict is Verdict.PASS
