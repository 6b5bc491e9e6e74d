"""Answers recorded from real engines are read as what they were, however the network cuts them."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvstress.client.answer import reader
from kvstress.client.assembly import Answer
from kvstress.core.exchange import Usage
from kvstress.core.outcome import Kind

RECORDED = Path(__file__).parents[1] / "data" / "client"
TYPES = {".sse": "text/event-stream; charset=utf-8", ".json": "application/json", ".txt": "text/plain"}

# File: status, kind, part of the server's words, text begins with, number of tokens with a logprob.
EXPECTED: dict[str, tuple[int, Kind, str | None, str | None, int | None]] = {
    "llamacpp_bad_request.json": (400, Kind.CLIENT_ERROR, "'messages' to be an array", None, None),
    "llamacpp_chat.json": (200, Kind.OK, None, "<|im_end|>", None),
    "llamacpp_chat_logprobs.json": (200, Kind.OK, None, "<|im_", 4),
    "llamacpp_completions.json": (200, Kind.OK, None, " the capital", 12),
    "llamacpp_logprobs.sse": (200, Kind.OK, None, "<|im_", 4),
    "llamacpp_overlong.json": (400, Kind.TOO_LONG, "exceeds the available context size", None, None),
    "llamacpp_pressure.json": (500, Kind.SERVER_ERROR, "Context size has been exceeded.", None, None),
    "llamacpp_pressure.sse": (200, Kind.STREAM_ERROR, "Context size has been exceeded.", "<|im", None),
    "llamacpp_pressure_at_once.sse": (200, Kind.STREAM_ERROR, "Context size has been exceeded.", None, None),
    "llamacpp_usage.sse": (200, Kind.OK, None, "<|im_end|>\n<", None),
    "transformers_chat.json": (200, Kind.OK, None, "parse None", None),
    "transformers_chat.sse": (200, Kind.MISSING_DONE, None, "parse None", None),
    "transformers_dead.json": (503, Kind.SERVER_ERROR, "CB worker is dead", None, None),
    "transformers_killed.sse": (200, Kind.STREAM_ERROR, "no requests can be offloaded", "", None),
    "transformers_killed.txt": (500, Kind.SERVER_ERROR, "Internal Server Error", None, None),
    "vllm_at_the_limit.json": (400, Kind.CLIENT_ERROR, "max_tokens must be at least 1", None, None),
    "vllm_bad_max_tokens.json": (400, Kind.CLIENT_ERROR, "max_tokens must be at least 1", None, None),
    "vllm_chat.json": (200, Kind.OK, None, " wkiqmon", None),
    "vllm_chat_logprobs.json": (200, Kind.OK, None, " wkiqmo", 3),
    "vllm_completions.json": (200, Kind.OK, None, "le super", 4),
    "vllm_killed.sse": (200, Kind.STREAM_ERROR, "EngineCore encountered an issue", " mat", None),
    "vllm_logprobs.sse": (200, Kind.OK, None, " wkiqmon", 3),
    "vllm_no_messages.json": (400, Kind.CLIENT_ERROR, "Field required", None, None),
    "vllm_overlong.json": (400, Kind.TOO_LONG, "maximum context length is 40000", None, None),
    "vllm_unknown_model.json": (404, Kind.CLIENT_ERROR, "does not exist", None, None),
    "vllm_usage.sse": (200, Kind.OK, None, " wkiqmon", None),
}


def replay(name: str, *, step: int = 1 << 20, end: int | None = None) -> Answer:
    """What the client makes of a recorded answer that comes in pieces of `step` bytes and stops at byte `end`."""
    path = RECORDED / name
    data = path.read_bytes()[:end]
    taker = reader(EXPECTED[name][0], TYPES[path.suffix], None, stream=path.suffix == ".sse")
    for start in range(0, len(data), step):
        taker.feed(data[start : start + step], float(start))
    return taker.end(None)


def test_every_recording_is_expected_to_be_something() -> None:
    assert {path.name for path in RECORDED.iterdir()} == set(EXPECTED)


@pytest.mark.parametrize("name", EXPECTED)
def test_a_recorded_answer_is_read_as_what_it_was(name: str) -> None:
    _, kind, words, text, tokens = EXPECTED[name]
    got = replay(name)
    assert got.kind is kind
    assert got.words is None if words is None else words in (got.words or "")
    assert (got.choices[0].text[: len(text)] if text is not None else got.choices) == (() if text is None else text)
    if text is not None:
        logprobs = got.choices[0].logprobs
        assert (None if logprobs is None else len(logprobs)) == tokens


@given(st.sampled_from(sorted(EXPECTED)), st.integers(1, 300))
def test_a_recorded_answer_does_not_depend_on_the_size_of_reads(name: str, step: int) -> None:
    assert replay(name, step=step) == replay(name)


@given(st.sampled_from(sorted(name for name in EXPECTED if EXPECTED[name][1] is Kind.OK)), st.data())
def test_an_answer_that_stops_too_early_is_never_taken_for_a_whole_one(name: str, data: st.DataObject) -> None:
    whole = (RECORDED / name).read_bytes().rstrip()
    end = data.draw(st.integers(0, len(whole) - 1))
    assert replay(name, end=end).kind in (Kind.MALFORMED, Kind.MISSING_FINISH, Kind.MISSING_DONE)


def test_usage_keeps_apart_what_was_not_said_and_zero() -> None:
    assert replay("llamacpp_chat.json").usage == Usage(
        prompt_tokens=28, completion_tokens=16, total_tokens=44, cached_tokens=0
    )
    vllm = replay("vllm_usage.sse").usage
    assert vllm == Usage(prompt_tokens=17, completion_tokens=8, total_tokens=25, cached_tokens=None)
    assert replay("llamacpp_logprobs.sse").usage is None


def test_both_shapes_of_logprobs_become_one() -> None:
    chat, legacy = replay("vllm_chat_logprobs.json"), replay("vllm_completions.json")
    first = (chat.choices[0].logprobs or ())[0]
    assert (first.token, first.logprob) == (" wkiqmo", -7.624614715576172)
    assert first.top[0] == (" wkiqmo", -7.624614715576172)
    assert len(first.top) == 3
    tokens = legacy.choices[0].logprobs or ()
    assert "".join(token.token for token in tokens) == legacy.choices[0].text
    assert tokens[1].top[0] == (" super", -7.624614238739014)
