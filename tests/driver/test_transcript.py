"""The transcript holds what is still quoted, in bounded memory, and never fills a hole with nothing by accident."""

import pytest

from kvstress.core.errors import CannotJudgeError
from kvstress.core.plan import Answer, Request
from kvstress.driver.transcript import Transcript


def quoting(*steps: int) -> Request:
    holes = [Answer(step=step, phase="ask") for step in steps]
    return Request(id="s99.ask", step=99, phase="ask", body={"messages": holes})


def test_a_phase_that_never_answered_leaves_an_empty_text() -> None:
    transcript = Transcript()
    transcript.remember(0, "ask", "")
    assert transcript.resolved(quoting(0, 1)).body == {"messages": ["", ""]}


def test_a_request_without_holes_is_passed_on_as_it_is() -> None:
    request = quoting()
    assert Transcript().resolved(request) is request


def test_an_answer_that_was_dropped_is_an_error_that_names_it() -> None:
    transcript = Transcript(capacity=10_000)
    for step in range(100):
        transcript.remember(step, "ask", "x" * 1_000)
    assert transcript.resolved(quoting(99)).body == {"messages": ["x" * 1_000]}
    with pytest.raises(CannotJudgeError, match=r"s99\.ask quotes the answer to ask of step 3"):
        transcript.resolved(quoting(3))


def test_an_answer_that_is_still_quoted_outlives_newer_ones() -> None:
    transcript = Transcript(capacity=10_000)
    transcript.remember(0, "ask", "kept")
    for step in range(1, 100):
        transcript.remember(step, "ask", "x" * 1_000)
        assert transcript.resolved(quoting(0)).body == {"messages": ["kept"]}


def test_a_million_answers_take_no_more_than_the_capacity() -> None:
    transcript = Transcript(capacity=50_000)
    for step in range(1_000_000):
        transcript.remember(step, "ask", "")
    assert len(transcript) <= 250


def test_one_answer_longer_than_the_capacity_can_still_be_quoted() -> None:
    transcript = Transcript(capacity=100)
    transcript.remember(0, "ask", "y" * 1_000)
    assert transcript.resolved(quoting(0)).body == {"messages": ["y" * 1_000]}


def test_an_answer_given_twice_counts_once() -> None:
    transcript = Transcript(capacity=10_000)
    for _ in range(100):
        transcript.remember(7, "ask", "z" * 4_000)
    transcript.remember(8, "ask", "")
    assert transcript.resolved(quoting(7)).body == {"messages": ["z" * 4_000]}
