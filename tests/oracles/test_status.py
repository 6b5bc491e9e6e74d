"""STATUS: what is a failure, what is a fair refusal, and what nobody can tell."""

from dataclasses import replace

import pytest

from kvstress.core.events import Event, RequestSent, ServerChange, ServerEvent
from kvstress.core.outcome import Kind
from kvstress.core.plan import Expect
from kvstress.core.sample import Sample
from kvstress.core.verdict import Verdict
from kvstress.oracles.status import Status
from tests.oracles.runs import answer, manifest, sent


def _seen(*events: Event) -> list[Verdict]:
    oracle, asked, found = Status(manifest()), None, []
    for event in events:
        asked = event if isinstance(event, RequestSent) else asked
        found += [finding.verdict for finding in oracle.see(event, asked)]
    return found


def _limit(tokens: int) -> ServerEvent:
    return ServerEvent(at=0.0, change=ServerChange.LIMIT, tokens=tokens)


@pytest.mark.parametrize(
    "kind",
    [Kind.SERVER_ERROR, Kind.ERROR_ENVELOPE, Kind.RESET, Kind.NO_RESPONSE, Kind.CONNECTION_REFUSED, Kind.MALFORMED],
)
def test_one_failed_or_broken_answer_is_a_failure(kind: Kind) -> None:
    asked = sent(0)
    assert _seen(asked, answer(asked, kind, status=None)) == [Verdict.FAIL]


def test_a_body_that_cannot_be_read_is_told_by_why_and_not_as_no_http() -> None:
    asked = sent(0)
    faults = (
        "the body cannot be read to its end",
        "transport: the body is not encoded as its Content-Encoding says (gzip)",
    )
    broken = replace(answer(asked, Kind.PROTOCOL), violations=faults)
    (found,) = Status(manifest()).see(broken, asked)
    why = "(the body is not encoded as its Content-Encoding says (gzip))"
    assert found.summary.startswith(f"the answer breaks the rules of HTTP {why}")


def test_a_refusal_of_what_fits_the_announced_limit_is_a_failure() -> None:
    asked = sent(0, tokens=90, max_tokens=10)
    assert _seen(_limit(100), asked, answer(asked, Kind.TOO_LONG, status=400)) == [Verdict.FAIL]


def test_a_context_announced_for_the_model_promises_nothing_that_the_pool_cannot_hold() -> None:
    pool = Sample(at=0.0, why="start", kv_capacity=80.0)
    asked = sent(0, tokens=90, max_tokens=1, expect=Expect.ANSWER_OR_REFUSAL)
    refused = answer(asked, Kind.TOO_LONG, status=400)
    assert _seen(_limit(100), pool, asked, refused) == []
    assert _seen(_limit(100), asked, refused) == [Verdict.FAIL]


def test_a_refusal_of_what_does_not_fit_is_nobodys_fault_but_judges_nothing() -> None:
    asked = sent(0, tokens=91, max_tokens=10)
    assert _seen(_limit(100), asked, answer(asked, Kind.TOO_LONG, status=400)) == [Verdict.INCONCLUSIVE]


def test_a_refusal_is_a_failure_when_a_larger_prompt_was_answered_before() -> None:
    large, small = sent(0, tokens=200), sent(1, tokens=100, expect=Expect.ANSWER_OR_REFUSAL)
    answered = answer(large, prompt_tokens=200)
    assert _seen(large, answered, small, answer(small, Kind.TOO_LONG, status=400)) == [Verdict.FAIL]


def test_a_clean_refusal_is_a_good_answer_where_the_workload_asks_for_one() -> None:
    asked = sent(0, tokens=10_000, expect=Expect.ANSWER_OR_REFUSAL)
    assert _seen(asked, answer(asked, Kind.TOO_LONG, status=400)) == []


def test_overload_with_retry_after_is_never_a_failure() -> None:
    asked = sent(0)
    assert _seen(asked, answer(asked, Kind.OVERLOADED, status=429)) == [Verdict.INCONCLUSIVE]


def test_another_4xx_fails_only_after_the_like_was_accepted() -> None:
    first, second = sent(0), sent(1)
    assert _seen(first, answer(first, Kind.CLIENT_ERROR, status=404)) == [Verdict.INCONCLUSIVE]
    refused = answer(second, Kind.CLIENT_ERROR, status=404)
    assert _seen(first, answer(first), second, refused) == [Verdict.FAIL]


def test_a_stream_that_broke_after_its_200_is_left_to_stream() -> None:
    asked = sent(0, stream=True)
    assert _seen(asked, answer(asked, Kind.RESET, status=200, chunks=3)) == []
    assert _seen(asked, answer(asked, Kind.STREAM_ERROR, status=200)) == []
