"""What counts as an answer, and what the protocol's known quirks are not: failures."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvstress.client.answer import Streamed, Whole, reader
from kvstress.client.assembly import Answer
from kvstress.core.exchange import TokenLogprob
from kvstress.core.outcome import OUTCOME_OF, Kind, Outcome

STOP = '{"id":"c","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}'


def delta(fields: str, index: int = 0, id_: str = "c", finish: str = "null") -> str:
    return f'{{"id":"{id_}","choices":[{{"index":{index},"delta":{{{fields}}},"finish_reason":{finish}}}]}}'


def streamed(*payloads: str, end: str = "data: [DONE]\n\n", ended_by: Kind | None = None) -> Answer:
    """The answer of a stream with these payloads and then `end`."""
    taker = Streamed()
    for place, payload in enumerate(payloads):
        taker.feed(f"data: {payload}\n\n".encode(), float(place))
    taker.feed(end.encode(), float(len(payloads)))
    return taker.end(ended_by)


def whole(body: bytes) -> Answer:
    taker = Whole()
    taker.feed(body, 0.0)
    return taker.end(None)


HELLO = delta('"content":"hello"')


@pytest.mark.parametrize(
    "end",
    [
        "data: [DONE]",
        "data: [DONE]\n",
        "data: [DONE]\r\n\r\n",
        "data:[DONE] \n\n",
        "data: [DONE]\r",
        ": hi\n\ndata: [DONE]\n\n",
    ],
)
def test_done_counts_in_every_form_in_which_servers_send_it(end: str) -> None:
    got = streamed(HELLO, STOP, end=end)
    assert (got.kind, got.violations, got.choices[0].text) == (Kind.OK, (), "hello")


def test_content_in_the_chunk_that_finishes_is_legal() -> None:
    got = streamed(HELLO, delta('"content":"!"', finish='"length"'))
    assert (got.kind, got.violations, got.choices[0].text) == (Kind.OK, (), "hello!")
    assert got.choices[0].finish_reason == "length"


def test_an_empty_finish_reason_on_middle_chunks_is_none() -> None:
    got = streamed(delta('"content":"a"', finish='""'), delta('"content":"b"', finish='""'), STOP)
    assert (got.kind, got.violations, got.choices[0].text) == (Kind.OK, (), "ab")
    assert streamed(delta('"content":"a"', finish='""')).kind is Kind.MISSING_FINISH


def test_an_id_that_changes_is_a_violation_only_when_there_is_one_choice() -> None:
    one = streamed(HELLO, delta('"content":"x"', id_="d"), STOP)
    assert (one.kind, one.violations) == (Kind.OK, ("stream: the id changed from chunk to chunk",))
    two = streamed(
        delta('"content":"x"', 0, "c"),
        delta('"content":"y"', 1, "d"),
        delta("", 0, "c", '"stop"'),
        delta("", 1, "d", '"stop"'),
    )
    assert (two.kind, two.violations) == (Kind.OK, ())
    assert [choice.text for choice in two.choices] == ["x", "y"]


def test_each_choice_must_finish() -> None:
    got = streamed(delta('"content":"x"', 0), delta('"content":"y"', 1), STOP)
    assert got.kind is Kind.MISSING_FINISH
    assert "choice 1" in got.violations[0]


def test_what_comes_after_done_is_a_violation_and_no_content() -> None:
    got = streamed(HELLO, STOP, "[DONE]", delta('"content":"late"'))
    assert (got.kind, got.choices[0].text) == (Kind.OK, "hello")
    assert got.violations == ("stream: a chunk came after [DONE]", "stream: [DONE] came more than once")


def test_content_after_the_finish_is_kept_and_noted() -> None:
    got = streamed(HELLO, STOP, delta('"content":"more"'))
    assert (got.kind, got.choices[0].text) == (Kind.OK, "hellomore")
    assert got.violations == ("stream: choice 0 goes on after its finish_reason",)


def test_keepalives_and_empty_events_are_no_content() -> None:
    taker = Streamed()
    for place, piece in enumerate(
        (b": keepalive\n\n", b"data:\n\n", b'data: {"choices":[{"delta":{"content":""}}]}\n\n')
    ):
        taker.feed(piece, float(place))
    assert list(taker.chunk_at) == []
    taker.feed(f"data: {HELLO}\n\ndata: {HELLO}\n\n".encode(), 3.0)
    assert (list(taker.chunk_at), len(taker.chunk_bytes)) == ([3.0], 1)


@pytest.mark.parametrize("name", ["reasoning", "reasoning_content"])
def test_reasoning_is_read_under_both_its_names(name: str) -> None:
    got = streamed(delta(f'"{name}":"thin"'), delta(f'"{name}":"king"'), HELLO, STOP)
    assert (got.choices[0].reasoning, got.choices[0].text) == ("thinking", "hello")


def test_tool_calls_are_put_together_from_their_pieces() -> None:
    def call(fields: str) -> str:
        return delta(f'"tool_calls":[{{{fields}}}]')

    got = streamed(
        call('"index":0,"id":"t0","type":"function","function":{"name":"look","arguments":""}'),
        call('"index":0,"function":{"arguments":"{\\"a\\":"}'),
        call('"index":1,"id":"t1","function":{"name":"go","arguments":"{}"}'),
        call('"index":0,"function":{"arguments":"1}"}'),
        delta("", finish='"tool_calls"'),
    )
    assert got.kind is Kind.OK
    assert msgspec.json.decode(got.choices[0].tool_calls) == [
        {"id": "t0", "name": "look", "arguments": '{"a":1}'},
        {"id": "t1", "name": "go", "arguments": "{}"},
    ]


def test_tool_calls_of_a_whole_answer_may_have_no_index_and_an_object_for_arguments() -> None:
    got = whole(
        b'{"choices":[{"message":{"content":null,"tool_calls":[{"id":"a","function":{"name":"f","arguments":{"x":1}}},'
        b'{"id":"b","function":{"name":"g","arguments":"{}"}}]},"finish_reason":"tool_calls"}]}'
    )
    calls = msgspec.json.decode(got.choices[0].tool_calls)
    assert [(call["id"], call["arguments"]) for call in calls] == [("a", '{"x":1}'), ("b", "{}")]


def test_a_content_in_parts_is_their_text() -> None:
    got = whole(
        b'{"choices":[{"message":{"content":[{"type":"text","text":"a"},{"text":"b"}]},"finish_reason":"stop"}]}'
    )
    assert (got.kind, got.choices[0].text) == (Kind.OK, "ab")


def test_legacy_completions_are_read_streamed_and_whole() -> None:
    got = streamed(
        '{"choices":[{"text":"a","index":0}]}', '{"choices":[{"text":"b","index":0,"finish_reason":"length"}]}'
    )
    assert (got.kind, got.choices[0].text, got.choices[0].finish_reason) == (Kind.OK, "ab", "length")
    assert whole(b'{"choices":[{"text":"ab","finish_reason":"stop"}]}').choices[0].text == "ab"


def test_a_null_logprob_is_not_observed_and_lists_of_unequal_length_do_not_fail() -> None:
    body = b'{"choices":[{"text":"ab","finish_reason":"stop","logprobs":{"tokens":["a","b"],"token_logprobs":[null],'
    got = whole(body + b'"top_logprobs":[null,{"b":-0.5}]}}]}')
    assert got.choices[0].logprobs == (
        TokenLogprob(token="a", logprob=None),
        TokenLogprob(token="b", logprob=None, top=(("b", -0.5),)),
    )


def test_an_error_decides_even_when_the_stream_then_ends_well_or_badly() -> None:
    error = '{"error":{"message":"boom","code":500}}'
    for got in (
        streamed(HELLO, error),
        streamed(HELLO, error, STOP),
        streamed(HELLO, error, end="", ended_by=Kind.RESET),
    ):
        assert (got.kind, got.words, got.fault) == (Kind.STREAM_ERROR, "boom", error)


def test_an_error_after_done_is_a_stream_error_too() -> None:
    assert streamed(HELLO, STOP, "[DONE]", '{"error":"late"}').kind is Kind.STREAM_ERROR


@pytest.mark.parametrize("failure", ["null", '""', "{}", "false"])
def test_an_error_that_is_empty_is_none(failure: str) -> None:
    got = whole(f'{{"error":{failure},"choices":[{{"message":{{"content":"x"}},"finish_reason":"stop"}}]}}'.encode())
    assert (got.kind, got.words) == (Kind.OK, None)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ('{"error":{"message":"m","type":"t"}}', "m"),
        ('{"error":"s"}', "s"),
        ('{"error":{"code":7}}', '{"code":7}'),
        ('{"detail":"d"}', "d"),
        ('{"detail":[{"loc":["body"],"msg":"missing"},{"msg":"wrong"}]}', "missing; wrong"),
        ('{"object":"error","message":"m"}', "m"),
        ('{"error":{"error":{"message":"deep"}}}', "deep"),
    ],
)
def test_every_envelope_gives_its_words_with_a_200_and_without(body: str, words: str) -> None:
    envelope = whole(body.encode())
    assert (envelope.kind, envelope.words) == (Kind.ERROR_ENVELOPE, words)
    assert (streamed(HELLO, body).kind, streamed(HELLO, body).words) == (Kind.STREAM_ERROR, words)
    refusal = reader(400, "application/json", None, stream=False)
    refusal.feed(body.encode(), 0.0)
    assert refusal.end(None).words == words


def test_a_page_instead_of_an_answer_gives_its_title() -> None:
    got = whole(b"<!DOCTYPE html><html><head><title>502 Bad &amp; Gateway</title></head><body>x</body></html>")
    assert (got.kind, got.words) == (Kind.MALFORMED, "502 Bad & Gateway")


@pytest.mark.parametrize("reason", ["error", "abort", "cancelled", "insufficient_system_resource"])
def test_an_unknown_reason_to_finish_is_a_failure_streamed_and_whole(reason: str) -> None:
    stream = streamed(HELLO, delta("", finish=f'"{reason}"'))
    assert (stream.kind, stream.words) == (Kind.STREAM_ERROR, f"finish_reason {reason!r}")
    body = f'{{"choices":[{{"message":{{"content":"x"}},"finish_reason":"{reason}"}}]}}'
    assert whole(body.encode()).kind is Kind.ERROR_ENVELOPE


@pytest.mark.parametrize(
    "payload", ['{"choices":[{"delta":{"content":3}}]}', "[]", "null", '"x"', "{", "x", '{"a":Infinity}']
)
def test_a_chunk_that_is_not_one_is_malformed(payload: str) -> None:
    got = streamed(HELLO, payload, STOP)
    assert (got.kind, got.fault) == (Kind.MALFORMED, payload)


def test_nesting_without_end_is_malformed_and_harms_nobody() -> None:
    deep = "[" * 100_000
    assert streamed(HELLO, f'{{"x":{deep}').kind is Kind.MALFORMED
    assert whole(b'{"error":' + deep.encode()).kind is Kind.MALFORMED
    nested = '{"error":' * 500 + '"x"' + "}" * 500
    assert whole(nested.encode()).kind is Kind.ERROR_ENVELOPE


def test_a_stream_that_was_cut_off_is_named_after_what_cut_it() -> None:
    got = streamed(HELLO, end="", ended_by=Kind.TRUNCATED_CHUNK)
    assert (got.kind, got.choices[0].text) == (Kind.TRUNCATED_CHUNK, "hello")


def test_a_last_event_that_is_cut_off_is_not_called_malformed() -> None:
    got = streamed(HELLO, end='data: {"choices":[{"del')
    assert got.kind is Kind.MISSING_FINISH
    assert "stream: the last event is cut off" in got.violations


@pytest.mark.parametrize(
    ("content_type", "stream", "kind"),
    [
        ("text/event-stream", True, Streamed),
        ("text/event-stream", False, Streamed),
        ("application/json", True, Whole),
        ("text/html", True, Whole),
        ("", True, Streamed),
        ("", False, Whole),
    ],
)
def test_a_response_is_read_as_what_it_says_it_is(content_type: str, stream: bool, kind: type) -> None:
    assert isinstance(reader(200, content_type, None, stream=stream), kind)


STATUSES = st.integers(0, 999).filter(lambda status: status != 200)


@given(STATUSES, st.binary(max_size=200), st.none() | st.just("1"))
def test_no_other_status_is_ever_a_success(status: int, body: bytes, retry_after: str | None) -> None:
    taker = reader(status, "application/json", retry_after, stream=False)
    taker.feed(body, 0.0)
    outcome = OUTCOME_OF[taker.end(None).kind]
    expected = {4: {Outcome.REFUSED}, 5: {Outcome.FAILED, Outcome.REFUSED}}.get(status // 100, {Outcome.BROKEN})
    assert outcome in expected


@given(st.lists(st.binary(max_size=80), max_size=8), st.booleans(), st.sampled_from([None, Kind.RESET, Kind.DEADLINE]))
def test_no_bytes_make_a_reader_raise(pieces: list[bytes], stream: bool, ended_by: Kind | None) -> None:
    taker = reader(200, "", None, stream=stream)
    for piece in pieces:
        taker.feed(b"data: " + piece + b"\n\n" if stream else piece, 0.0)
    assert taker.end(ended_by).kind is not Kind.OK
