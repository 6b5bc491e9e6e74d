"""Oracles of single answers: USAGE, LOGPROB, EMPTY, DEGEN, CACHEDTOK, STRUCT; what each finds and is silent about."""

import json
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from kvstress.core.events import Event, RequestSent, ServerChange, ServerEvent
from kvstress.core.exchange import Choice, Exchange, TokenLogprob, Usage
from kvstress.core.outcome import Kind
from kvstress.core.plan import Origin
from kvstress.core.verdict import Finding, Verdict
from kvstress.oracles.cachedtok import CachedTokens
from kvstress.oracles.degen import Degen
from kvstress.oracles.empty import Empty
from kvstress.oracles.logprob import Logprob
from kvstress.oracles.oracle import OracleMaker
from kvstress.oracles.structure import Struct
from kvstress.oracles.usage import UsageSums
from tests.oracles.runs import answer, manifest, sent

Pair = tuple[RequestSent, Exchange]
COUNTS = Usage(prompt_tokens=100, completion_tokens=10, total_tokens=110, cached_tokens=99)


def said(number: int | None = 0, text: str = "fine", usage: Usage | None = COUNTS, **more: Any) -> Pair:
    """A completed answer to a request of its own; `asked` and `choice` change either's fields."""
    asked = replace(sent(number, max_tokens=64), **more.pop("asked", {}))
    choice = replace(Choice(index=0, text=text, finish_reason="length"), **more.pop("choice", {}))
    return asked, replace(answer(asked), choices=(choice,), usage=usage, **more)


FRESH = ServerEvent(at=0.0, change=ServerChange.STARTED)


def findings(make: OracleMaker, pairs: Iterable[Pair], before: Event | None = None) -> list[Finding]:
    oracle = make(manifest())
    events: list[tuple[Event, RequestSent | None]] = [] if before is None else [(before, None)]
    for asked, exchange in pairs:
        events += [(asked, None), (exchange, asked)]
    return [finding for event, asked in events for finding in oracle.see(event, asked)]


def keys(make: OracleMaker, *pairs: Pair, before: Event | None = None) -> list[str]:
    failed = [finding for finding in findings(make, pairs, before) if finding.verdict is Verdict.FAIL]
    return [finding.signature.partition(":")[2] for finding in failed]


@pytest.mark.parametrize(
    ("change", "key"),
    [
        ({}, None),
        ({"total_tokens": 113}, "total"),
        ({"total_tokens": None}, None),
        ({"cached_tokens": 101}, "cached"),
        ({"cached_tokens": -1}, "negative cached"),
        ({"reasoning_tokens": 11}, "reasoning"),
        ({"completion_tokens": 65, "total_tokens": 165}, None),
        ({"completion_tokens": 66, "total_tokens": 166}, "over max_tokens"),
    ],
)
def test_usage_holds_counts_to_their_identities(change: dict[str, Any], key: str | None) -> None:
    assert keys(UsageSums, said(usage=replace(COUNTS, **change))) == ([key] if key else [])


def test_usage_allows_n_answers_their_sum() -> None:
    three = replace(COUNTS, completion_tokens=192, total_tokens=292)
    assert keys(UsageSums, said(usage=three, asked={"options": '{"n":3}'})) == []


@pytest.mark.parametrize(
    ("entries", "text", "wrong"), [(9, "x", False), (8, "x", True), (8, "ü", False), (12, "ü", True)]
)
def test_usage_compares_tokens_with_log_probabilities(entries: int, text: str, wrong: bool) -> None:
    logprobs = (TokenLogprob(token="x", logprob=-0.1),) * entries
    assert keys(UsageSums, said(text=text, choice={"logprobs": logprobs})) == (["logprobs"] if wrong else [])


def test_usage_sees_a_prompt_that_was_cut_in_silence_once_the_server_has_shown_how_it_counts() -> None:
    sized = [
        said(
            None,
            usage=replace(COUNTS, prompt_tokens=n, total_tokens=n + 10, cached_tokens=0),
            asked={"origin": Origin.SIZING, "tokens": None, "body_sha256": str(n)},
        )
        for n in (60, 130)
    ]
    cut = said(1, asked={"tokens": 2000, "body_sha256": "a"})
    assert keys(UsageSums, *sized, cut) == ["prompt cut"]
    assert keys(UsageSums, cut) == []
    assert keys(UsageSums, *sized, said(1, asked={"tokens": 105, "body_sha256": "a"})) == []


def test_usage_sees_equal_bytes_counted_differently() -> None:
    other = replace(COUNTS, prompt_tokens=90, total_tokens=100, cached_tokens=0)
    assert keys(UsageSums, said(0), said(1, usage=other)) == ["prompt changed"]


def token(logprob: float | None, *top: tuple[str, float | None]) -> TokenLogprob:
    return TokenLogprob(token="a", logprob=logprob, top=top)


GREEDY = {"options": '{"temperature":0}'}


@pytest.mark.parametrize(
    ("one", "key"),
    [
        (token(-0.1, ("a", -0.1), ("b", -3.0)), None),
        (token(-0.1, ("a", -0.1), ("b", float("-inf")), ("c", -9999.0)), None),
        (token(-0.1, ("a", -0.1), ("b", -3.0), ("a", -0.1)), None),
        (token(None), "chosen"),
        (token(float("nan")), "chosen"),
        (token(float("-inf")), "chosen"),
        (token(0.5), "above 0"),
        (token(-0.1, ("a", -0.1), ("b", float("nan"))), "above 0"),
        (token(-0.1, ("a", -0.1), ("b", -0.2)), "sum"),
        (token(-3.0, ("b", -0.1), ("a", -3.0)), "not the best"),
        (token(-0.7, ("a", -1.5)), "own entry"),
    ],
)
def test_logprob_finds_what_no_softmax_gives(one: TokenLogprob, key: str | None) -> None:
    assert keys(Logprob, said(asked=GREEDY, choice={"logprobs": (one,)})) == ([key] if key else [])


def test_logprob_lets_a_sampled_token_be_any() -> None:
    one = token(-3.0, ("b", -0.1), ("a", -3.0))
    assert keys(Logprob, said(asked={"options": '{"temperature":1.0}'}, choice={"logprobs": (one,)})) == []
    assert (
        keys(Logprob, said(asked={"options": '{"temperature":0,"logit_bias":{"1":5}}'}, choice={"logprobs": (one,)}))
        == []
    )


def test_logprob_knows_a_literal_nan_from_the_500_that_masked_tokens_cause_too() -> None:
    asked, right = said()
    spoilt = replace(
        right, kind=Kind.MALFORMED, choices=(), error_bytes='{"token":"a","logprob":NaN,"top_logprobs":[]}'
    )
    strict = replace(right, kind=Kind.SERVER_ERROR, status=500, error_bytes="Out of range float values", choices=())
    assert keys(Logprob, (asked, spoilt)) == ["no number"]
    assert keys(Logprob, (asked, strict)) == []


def means(*each: float) -> list[Pair]:
    return [said(n, choice={"logprobs": (token(mean),) * 40}) for n, mean in enumerate(each)]


def test_logprob_calls_a_mean_low_only_where_it_was_not_from_the_start() -> None:
    assert keys(Logprob, *means(-0.5, -0.5, -0.5, -0.5, -7.6)) == ["mean"]
    assert keys(Logprob, *means(-7.6, -7.6, -7.6, -0.5)) == [], "dummy weights: uniform from the first answer on"


def test_empty_finds_tokens_that_were_counted_and_not_sent() -> None:
    assert keys(Empty, said(text="")) == ["nothing said"]
    assert keys(Empty, said(text="", usage=replace(COUNTS, completion_tokens=0))) == ["length of nothing"]


@pytest.mark.parametrize(
    "quiet",
    [
        said(text="", choice={"reasoning": "thinking"}),
        said(text="", choice={"tool_calls": '[{"name":"f"}]'}),
        said(text="", usage=replace(COUNTS, completion_tokens=1)),
        said(text="", usage=replace(COUNTS, completion_tokens=10, reasoning_tokens=10)),
        said(text="", usage=replace(COUNTS, completion_tokens=0), choice={"finish_reason": "stop"}),
    ],
)
def test_empty_is_silent_about_thinking_tools_special_tokens_and_models_that_have_nothing_to_say(quiet: Pair) -> None:
    assert keys(Empty, quiet) == []


def test_empty_finds_answers_that_become_empty() -> None:
    stop: dict[str, Any] = {"choice": {"finish_reason": "stop"}, "usage": replace(COUNTS, completion_tokens=1)}
    became = [*(said(n) for n in range(20)), *(said(n, text="", **stop) for n in range(20, 24))]
    assert "became empty" in keys(Empty, *became)
    assert keys(Empty, *(said(n, text="" if n % 5 == 0 else "x", **stop) for n in range(60))) == []


FLOOD = "!" * 80
WORDS = "the quick brown fox jumps over a lazy dog and goes home again"


def test_degen_finds_answers_that_turn_into_noise() -> None:
    turned = [*(said(n, text=WORDS) for n in range(10)), *(said(n, text=FLOOD) for n in range(10, 16))]
    assert keys(Degen, *turned) == ["noise"]


def test_a_model_that_loops_over_a_phrase_now_and_then_hides_no_flood() -> None:
    loop = "letter by letter " * 60
    before = [said(n, text=loop if n == 2 else WORDS) for n in range(12)]
    assert keys(Degen, *before) == []
    assert keys(Degen, *before, *(said(n, text="!" * 80) for n in range(12, 30))) == ["noise"]


@pytest.mark.parametrize("every", [1, 2, 3, 7])
def test_degen_is_silent_about_a_base_model_that_loops_when_cold_too(every: int) -> None:
    assert keys(Degen, *(said(n, text=FLOOD if n % every == 0 else WORDS) for n in range(80))) == []


def test_degen_is_silent_about_one_loop_among_many_and_about_a_grammar_that_floods_white_space() -> None:
    assert keys(Degen, *(said(n, text=WORDS) for n in range(30)), said(30, text=FLOOD)) == []
    shaped = {"options": json.dumps({"response_format": {"type": "json_object"}})}
    blanks = [said(n, text=" " * 300, asked=shaped) for n in range(30, 60)]
    assert keys(Degen, *(said(n, text=WORDS) for n in range(30)), *blanks) == []


@pytest.mark.parametrize("noise", [FLOOD, " " * 300, "<|reserved_special_token_7|>" + WORDS, "ab" * 600])
def test_degen_knows_each_kind_of_noise(noise: str) -> None:
    turned = [*(said(n, text=WORDS) for n in range(10)), *(said(n, text=noise) for n in range(10, 16))]
    assert keys(Degen, *turned) == ["noise"]


def cached(number: int, tokens: int, hit: int | None, key: str | None = None, **asked: Any) -> Pair:
    usage = Usage(prompt_tokens=tokens, completion_tokens=1, total_tokens=tokens + 1, cached_tokens=hit)
    recipe = f"generated text w/0/{number} units={tokens}" if key is None else key
    return said(number, usage=usage, asked={"recipe": recipe, "request": f"s{number}.{hit}", **asked})


def test_cachedtok_finds_tokens_that_were_never_sent() -> None:
    pairs = [cached(0, 80, 0), cached(1, 2000, 1990)]
    assert keys(CachedTokens, *pairs, before=FRESH) == ["never sent"]
    assert keys(CachedTokens, *pairs) == [], "an older server may have met the same seed"


@pytest.mark.parametrize(
    "pairs",
    [
        [cached(0, 80, 0), cached(1, 2000, 0), cached(1, 2000, 1999)],
        [cached(0, 80, 0), cached(1, 2000, 1)],
        [cached(0, 80, 0), cached(1, 2000, 64)],
        [cached(0, 80, None), cached(1, 2000, None)],
        [cached(0, 80, 0), cached(1, 2000, 1990, key="throughput_16k row 3 sha256=0")],
        [cached(0, 80, 0), cached(1, 2000, 1990, session="one")],
    ],
    ids=["a resend", "a shared BOS token", "template blocks", "a flag that is off", "dataset rows", "a session's turn"],
)
def test_cachedtok_is_silent_about_legitimate_hits(pairs: list[Pair]) -> None:
    assert keys(CachedTokens, *pairs, before=FRESH) == []


def test_cachedtok_takes_a_prompt_that_was_in_flight_at_a_kill_for_sent() -> None:
    (short, answered), (long, hit) = cached(0, 80, 0), cached(1, 2000, 1984)
    oracle = CachedTokens(manifest())
    for event, asked in ((FRESH, None), (short, None), (answered, short), (long, None), (long, None)):
        oracle.see(event, asked)
    assert oracle.see(hit, long) == ()


def test_cachedtok_notes_and_does_not_fail_resends_that_stop_hitting() -> None:
    resends = [cached(1, 2000, 0), cached(1, 2000, 1984)] + [cached(1, 2000, 0)] * 6
    notes = findings(CachedTokens, resends)
    assert [note.verdict for note in notes] == [Verdict.PASS]


SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"], "additionalProperties": False}
SHAPED = {"options": json.dumps({"response_format": {"type": "json_schema", "json_schema": {"schema": SCHEMA}}})}
TOOL = {"type": "function", "function": {"name": "f", "parameters": SCHEMA}}
FORCED = {"options": json.dumps({"tools": [TOOL], "tool_choice": "required"})}


def shaped(text: str, reason: str = "stop") -> Pair:
    return said(text=text, asked=SHAPED, choice={"finish_reason": reason})


def called(name: str, arguments: str) -> Pair:
    calls = json.dumps([{"id": None, "name": name, "arguments": arguments}])
    return said(text="", asked=FORCED, choice={"finish_reason": "tool_calls", "tool_calls": calls})


@pytest.mark.parametrize("text", ['{"a": 1', '{"a": "x"}', '{"b": 1}', '{"a": 1, "b": 2}', "no"])
def test_struct_finds_json_that_breaks_its_promise(text: str) -> None:
    assert keys(Struct, shaped('{"a": 1}'), shaped(text)) == ["schema"]


def test_struct_finds_tool_arguments_that_break_theirs() -> None:
    right = called("f", '{"a": 1}')
    assert keys(Struct, right, called("f", '{"a": 1')) == ["tool"]
    assert keys(Struct, right, called("g", '{"a": 1}')) == ["tool"]
    assert keys(Struct, right, said(text="no call", asked=FORCED, choice={"finish_reason": "stop"})) == ["tool"]


def test_struct_is_silent_about_blanks_cut_answers_and_free_text() -> None:
    assert keys(Struct, shaped('{"a": 1}'), shaped('{\n "a":  1 }'), shaped('{"a', "length"), said(text="{")) == []


def test_struct_does_not_blame_a_server_that_never_promised() -> None:
    verdicts = {finding.verdict for finding in findings(Struct, [shaped("never"), shaped("never")])}
    assert verdicts == {Verdict.INCONCLUSIVE}
