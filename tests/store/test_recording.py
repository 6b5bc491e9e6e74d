import hashlib
import json
import math
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvstress.core.errors import CannotJudgeError, UsageError
from kvstress.core.exchange import Choice, Exchange, TokenLogprob
from kvstress.core.outcome import Kind
from kvstress.store import bodies, rundir
from kvstress.store.bodies import read_bodies
from tests.store.made import DEVICE_ERROR, answered, manifest, whole_run

SECRET = "the patient is called Miller"
TOLD = Choice(
    index=0,
    text=SECRET,
    reasoning=SECRET,
    tool_calls="",
    finish_reason="stop",
    logprobs=(TokenLogprob(token=SECRET, logprob=math.nan, top=((SECRET, -1.5),)),),
)


def test_facts_keep_lengths_and_numbers_but_no_answer(tmp_path: Path) -> None:
    with rundir.create(tmp_path / "run", manifest(), record="facts") as writer:
        seen = writer.append(replace(answered("r"), choices=(TOLD,)))
    assert not any(SECRET.encode() in path.read_bytes() for path in (tmp_path / "run").iterdir())
    (stored,) = rundir.read_events(tmp_path / "run")
    assert isinstance(stored, Exchange) and repr(stored) == repr(seen)
    (choice,) = stored.choices
    assert (choice.text, choice.tool_calls, choice.finish_reason) == ("[28 characters not recorded]", "", "stop")
    assert choice.logprobs is not None and math.isnan(choice.logprobs[0].logprob or 0)
    assert choice.logprobs[0].top == (("", -1.5),)


def test_facts_keep_the_servers_words_about_an_error(tmp_path: Path) -> None:
    failed = answered("r", kind=Kind.SERVER_ERROR, words=DEVICE_ERROR)
    with rundir.create(tmp_path / "run", manifest(), record="facts") as writer:
        assert writer.append(failed) == failed


def test_text_is_the_default_and_stores_answers_but_no_bodies(tmp_path: Path) -> None:
    with rundir.create(tmp_path / "run", manifest()) as writer:
        writer.body("r", b'{"prompt": 1}')
        writer.append(replace(answered("r"), choices=(replace(TOLD, logprobs=None),)))
    (stored,) = rundir.read_events(tmp_path / "run")
    assert isinstance(stored, Exchange) and stored.text == SECRET
    assert list(read_bodies(tmp_path / "run")) == [] and not (tmp_path / "run" / bodies.FILE).exists()


def test_full_stores_each_body_byte_for_byte_even_after_reopening(tmp_path: Path) -> None:
    sent = [("s0.prime", b'{"a":  1.50}'), ("s0.warm", b'{\n"a": 1}'), ("x", b"\xff\x00"), ("y", b""), ("z", b" 1 ")]
    with rundir.create(tmp_path / "run", manifest(), record="full") as writer:
        for name, body in sent:
            writer.body(name, body)
    with rundir.reopen(tmp_path / "run") as writer:
        writer.body("again", b"null")
    assert list(read_bodies(tmp_path / "run")) == [*sent, ("again", b"null")]


@given(st.one_of(st.binary(), st.text().map(lambda text: json.dumps(text).encode())))
@settings(deadline=None)
def test_a_body_comes_back_with_the_same_digest(body: bytes) -> None:
    line = bodies.line("r", body)
    assert line.count(b"\n") == 1
    _, read = bodies._read(Path("bodies.jsonl"), 1, line)
    assert hashlib.sha256(read).digest() == hashlib.sha256(body).digest()


def test_a_corrupt_body_is_named_and_a_torn_one_is_nothing(tmp_path: Path) -> None:
    good = bodies.line("r", b"{}")
    (tmp_path / bodies.FILE).write_bytes(good + b'{"request":"to')
    assert list(read_bodies(tmp_path)) == [("r", b"{}")]
    (tmp_path / bodies.FILE).write_bytes(b"nonsense\n" + good)
    with pytest.raises(CannotJudgeError, match=r"bodies\.jsonl, line 1 is not a request body"):
        list(read_bodies(tmp_path))


def test_an_unknown_record_is_a_usage_error_before_anything_is_made(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="choose full, text or facts"):
        rundir.create(tmp_path / "run", manifest(), record="everything")
    assert not (tmp_path / "run").exists()


def test_a_torn_body_does_not_spoil_the_next_one(tmp_path: Path) -> None:
    with rundir.create(tmp_path / "run", manifest(), record="full") as writer:
        writer.body("a", b"1")
        writer.append(next(whole_run()))
    with (tmp_path / "run" / bodies.FILE).open("ab") as file:
        file.write(b'{"request":"torn","bo')
    with rundir.reopen(tmp_path / "run") as writer:
        writer.body("b", b"2")
    assert list(read_bodies(tmp_path / "run")) == [("a", b"1"), ("b", b"2")]
