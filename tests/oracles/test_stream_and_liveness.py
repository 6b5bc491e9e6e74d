"""STREAM and LIVENESS: errors after a 200, lost requests, and servers that exit."""

from dataclasses import replace

import pytest

from kvstress.core.events import ServerChange, ServerEvent, StepStarted
from kvstress.core.exchange import Choice, Exchange
from kvstress.core.outcome import Kind
from kvstress.core.plan import Origin
from kvstress.core.verdict import Verdict
from kvstress.oracles.liveness import Liveness
from kvstress.oracles.stream import Stream
from tests.oracles.runs import answer, manifest, sent

ASKED = sent(3, stream=True)


@pytest.mark.parametrize("kind", [Kind.STREAM_ERROR, Kind.MISSING_DONE])
def test_a_stream_that_does_not_end_as_the_protocol_says_is_a_failure(kind: Kind) -> None:
    (finding,) = Stream(manifest()).see(answer(ASKED, kind, chunks=3, words="no room"), ASKED)
    assert (finding.verdict, finding.step) == (Verdict.FAIL, 3)
    assert "after 3 content chunks" in finding.summary and "no room" in finding.summary


@pytest.mark.parametrize("kind", [Kind.RESET, Kind.TRUNCATED_CHUNK, Kind.MALFORMED])
def test_a_break_after_content_is_the_streams(kind: Kind) -> None:
    assert len(Stream(manifest()).see(answer(ASKED, kind, chunks=1), ASKED)) == 1


def test_a_break_before_any_content_is_not_the_streams() -> None:
    assert Stream(manifest()).see(answer(ASKED, Kind.RESET, status=None), ASKED) == ()


def test_a_healthy_stream_is_silent() -> None:
    assert Stream(manifest()).see(answer(ASKED, chunks=5), ASKED) == ()


def test_a_timeout_is_lost_and_fails_liveness_with_its_limit() -> None:
    (finding,) = Liveness(manifest(timeout=5.0)).see(answer(ASKED, Kind.DEADLINE, status=None), ASKED)
    assert (finding.verdict, finding.limit) == (Verdict.FAIL, "5.00 s")


@pytest.mark.parametrize(
    ("chunk_at", "said"),
    [
        ((), "it stalled before any content"),
        ((0.1,), "it stalled after 1 content chunk"),
        ((0.1, 0.2, 0.3), "it stalled after 3 content chunks"),
        ((0.1, 20.0, 40.0, 55.0), "it was still coming: 4 content chunks, the last 5.00 s before"),
        ((58.0, 59.0, 59.9), "it was still coming: 3 content chunks, the last 0.10 s before"),
    ],
)
def test_a_timeout_says_whether_the_answer_had_stalled_or_had_no_end(chunk_at: tuple[float, ...], said: str) -> None:
    late = replace(answer(ASKED, Kind.DEADLINE, status=200), sent=0.0, ended=60.0, chunk_at=chunk_at, body_bytes=0)
    (finding,) = Liveness(manifest(timeout=60.0)).see(late, ASKED)
    assert finding.summary.endswith(said)


@pytest.mark.parametrize("code", [0, 1, -9, None])
def test_a_server_that_exits_in_mid_run_is_dead_whatever_its_code(code: int | None) -> None:
    oracle = Liveness(manifest())
    oracle.see(StepStarted(at=0.0, step=7, label="16k"), None)
    (finding,) = oracle.see(ServerEvent(at=1.0, change=ServerChange.EXITED, code=code), None)
    assert (finding.verdict, finding.step) == (Verdict.FAIL, 7)


def test_a_slow_answer_is_not_a_dead_one() -> None:
    slow = Exchange(request=ASKED.request, due=0.0, sent=0.0, ended=800.0, kind=Kind.OK, status=200)
    assert Liveness(manifest()).see(slow, ASKED) == ()


def test_a_server_that_never_sends_done_shows_it_while_it_is_sized_and_does_not_fail_for_it() -> None:
    asked = sent(None, "sizing", origin=Origin.SIZING, stream=True)
    whole = Exchange(
        request=asked.request,
        due=0.0,
        sent=0.0,
        ended=1.0,
        kind=Kind.MISSING_DONE,
        status=200,
        choices=(Choice(index=0, text="x", finish_reason="length"),),
    )
    (note,) = Stream(manifest()).see(whole, asked)
    assert note.verdict is Verdict.PASS
    (finding,) = Stream(manifest()).see(replace(whole, choices=()), asked)
    assert finding.verdict is Verdict.FAIL
