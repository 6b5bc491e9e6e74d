import json
import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvstress.core.events import Event
from kvstress.core.exchange import Choice, Exchange, TokenLogprob
from kvstress.core.outcome import Kind
from kvstress.core.sample import Sample
from kvstress.store.cells import CANONICAL
from kvstress.store.codec import TYPES, decode, encode, settle
from tests.store.made import ANY_EVENT, answered


@given(ANY_EVENT)
@settings(deadline=None)
def test_what_was_written_is_what_is_read(event: Event) -> None:
    assert decode(encode(event)) == event


@given(ANY_EVENT)
@settings(deadline=None)
def test_an_event_is_one_line_of_json_with_its_type(event: Event) -> None:
    line = encode(event)
    assert line.count(b"\n") == 1 and line.endswith(b"\n")
    assert TYPES[json.loads(line)["type"]] is type(event)


@given(st.floats(allow_nan=False, allow_infinity=False))
@settings(deadline=None)
def test_a_finite_float_keeps_every_bit(value: float) -> None:
    read = decode(encode(Sample(at=value, why="step")))
    assert isinstance(read, Sample) and read.at.hex() == value.hex()


@given(st.sampled_from((math.nan, math.inf, -math.inf)), st.sampled_from(("at", *CANONICAL)))
@settings(deadline=None)
def test_a_metric_that_is_not_finite_is_not_taken_for_unobserved(value: float, name: str) -> None:
    fields: dict[str, Any] = {"at": 1.0, "why": "step", name: value, "raw": {"a": value}}
    read = decode(encode(Sample(**fields)))
    assert isinstance(read, Sample)
    assert repr(getattr(read, name)) == repr(read.raw["a"]) == repr(value)


def test_a_logprob_of_nan_survives() -> None:
    token = TokenLogprob(token="x", logprob=math.nan, top=(("y", -math.inf), ("z", None)))
    read = decode(
        encode(
            Exchange(request="r", due=0, sent=0, ended=1, kind=Kind.OK, choices=(Choice(index=0, logprobs=(token,)),))
        )
    )
    assert isinstance(read, Exchange) and read.choices[0].logprobs is not None
    assert repr(read.choices[0].logprobs[0]) == repr(token)


def test_non_finite_numbers_are_spelt_out_as_strict_json() -> None:
    line = encode(Sample(at=1.0, why="step", kv_free=math.nan, kv_cached=-math.inf, raw={"a": math.inf}))
    stored = json.loads(line, parse_constant=pytest.fail)
    assert (stored["kv_free"], stored["kv_cached"], stored["raw"]) == ("NaN", "-Infinity", {"a": "Infinity"})


@pytest.mark.parametrize("words", ["null", "NaN", "true", "1", '"', "\u2028", "\x00", "é", "𝄞"])
def test_text_that_looks_like_json_stays_text(words: str) -> None:
    event = answered("r", words=words)
    assert decode(encode(event)) == event


def test_half_a_surrogate_pair_becomes_a_question_mark_for_the_live_judge_too() -> None:
    line, seen = settle(answered("r", words="bad \ud83d end"))
    assert isinstance(seen, Exchange) and seen.server_words == "bad ? end"
    assert decode(line) == seen


def test_fields_of_a_later_version_are_skipped() -> None:
    event = answered("r")
    values = json.loads(encode(event)) | {"novelty": {"deep": [1, 2]}}
    assert decode(json.dumps(values).encode()) == event


def test_the_order_of_keys_does_not_matter() -> None:
    event = answered("r")
    assert decode(json.dumps(json.loads(encode(event)), sort_keys=True).encode()) == event


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"{",
        b"nonsense",
        b"[]",
        b"{}",
        b'{"type":3}',
        b'{"type":"sample"}',
        b'{"type":"novelty"}',
        b"\xff\xfe",
        b"[" * 100_000,
    ],
)
def test_a_line_that_is_no_event_is_a_value_error_with_a_reason(line: bytes) -> None:
    with pytest.raises(ValueError, match=r"\w+"):
        decode(line)
