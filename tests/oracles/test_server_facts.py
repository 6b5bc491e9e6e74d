"""Oracles of the server around the answers: its books, its life, its queue, and what one request does to others."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from kvstress.core.events import Event, Lagged, PageRead, RequestSent, ServerChange, ServerEvent
from kvstress.core.exchange import Choice, Exchange, Usage
from kvstress.core.outcome import Kind
from kvstress.core.plan import Expect, Origin
from kvstress.core.sample import Sample
from kvstress.core.verdict import Verdict
from kvstress.oracles.abort import Abort
from kvstress.oracles.admit import Admit
from kvstress.oracles.blast import Blast
from kvstress.oracles.health import Health
from kvstress.oracles.liveness import Liveness
from kvstress.oracles.metric import Metric
from kvstress.oracles.oracle import OracleMaker
from kvstress.oracles.quiesce import Quiesce
from kvstress.oracles.reconcile import Reconcile
from kvstress.oracles.survival import Survival
from tests.oracles.runs import answer, ended, manifest, sent


def keys(make: OracleMaker, events: Iterable[Event], verdict: Verdict = Verdict.FAIL) -> list[str]:
    oracle, asked, told = make(manifest()), {}, []
    for event in events:
        if isinstance(event, RequestSent):
            asked[event.request] = event
        request = asked.pop(event.request, None) if isinstance(event, Exchange) else None
        told += [finding for finding in oracle.see(event, request) if finding.verdict is verdict]
    return [finding.signature.partition(":")[2] for finding in told]


def page(at: float, **raw: float) -> Sample:
    return Sample(at=at, why="interval", raw=raw)


def pages(*values: float, name: str = "x") -> list[Event]:
    return [page(float(at), **{name: value}) for at, value in enumerate(values)]


@pytest.mark.parametrize(
    ("events", "told"),
    [
        (pages(1, -1, -1), ["negative x"]),
        (pages(1, -1, 1, -1, 1), []),
        (pages(0.5, 1.5, 1.5, name="kv_usage_ratio"), ["over one kv_usage_ratio"]),
        (pages(0.5, 0, 0, 1.0, name="kv_usage_ratio"), []),
        (pages(50, 93.5, 93.5, name="kv_usage_ratio"), []),
        (pages(float("nan"), float("nan"), name="x"), ["nan x"]),
        (pages(0, 1, 1, name="corrupted_requests_total"), ["corrupt corrupted_requests_total"]),
    ],
)
def test_metric_asks_for_two_scrapes_of_what_cannot_be(events: list[Event], told: list[str]) -> None:
    assert keys(Metric, events) == told


def test_metric_finds_a_family_that_vanished_and_none_in_a_page_that_could_not_be_read() -> None:
    assert keys(Metric, [page(0, a=1, b=1), page(1, a=1), page(2, a=1)]) == ["vanished b"]
    unread = Sample(at=1, why="interval", problem="timed out")
    assert keys(Metric, [page(0, a=1, b=1), unread, replace(unread, at=2), page(3, a=1, b=1)]) == []


def test_metric_finds_a_counter_that_falls_beside_one_that_does_not_and_leaves_restarts_alone() -> None:
    fell = [page(at, a_total=value, b_total=9) for at, value in enumerate((10, 4, 11, 5))]
    assert keys(Metric, fell) == ["fell a_total"]
    assert keys(Metric, [page(at, a_total=value, b_total=value) for at, value in enumerate((9, 1, 9, 1))]) == []


def test_metric_finds_more_tokens_accepted_than_drafted() -> None:
    spec = {"spec_decode_num_accepted_tokens_total": 9.0, "spec_decode_num_draft_tokens_total": 5.0}
    assert keys(Metric, [page(0, **spec), page(1, **spec)]) == ["accepted over drafted"]
    fine = dict(zip(spec, (5.0, 9.0), strict=True))
    assert keys(Metric, [page(0, **fine), page(1, **fine)]) == []


def test_survival_finds_a_restart_by_start_time_or_by_all_counters() -> None:
    started = [Sample(at=0, why="start", process_started=100.0), Sample(at=1, why="end", process_started=160.0)]
    assert keys(Survival, started) == ["restarted"]
    counters = [Sample(at=at, why="end", prompt_tokens=n, generation_tokens=n) for at, n in ((0, 50.0), (1, 3.0))]
    assert keys(Survival, counters) == ["restarted"]
    one_fell = [Sample(at=at, why="end", prompt_tokens=n, generation_tokens=9.0) for at, n in ((0, 50.0), (1, 3.0))]
    assert keys(Survival, one_fell) == []


def test_survival_finds_a_server_that_died_after_the_last_step() -> None:
    asked = sent(0)
    probe = sent(None, "health", origin=Origin.ASIDE)
    gone = answer(probe, Kind.CONNECTION_REFUSED, status=None)
    assert keys(Survival, [asked, answer(asked), probe, gone]) == ["gone"]
    refused = PageRead(at=9.0, path="/health", problem="connection refused: no")
    assert keys(Survival, [asked, answer(asked), refused]) == ["gone"]
    assert keys(Survival, [ServerEvent(at=1.0, change=ServerChange.EXITED, code=0)]) == ["exited"]
    assert keys(Survival, [refused]) == [], "nothing ever listened there"


def rounds(status: int | None, kind: Kind, times: int) -> list[Event]:
    events: list[Event] = []
    for number in range(times):
        probe = replace(sent(None, "health", origin=Origin.ASIDE), request=f"h{number}")
        code = 200 if kind is Kind.OK else 500
        events += [PageRead(at=1.0, path="/health", status=status), probe, answer(probe, kind, status=code)]
    return events


@pytest.mark.parametrize(
    ("status", "kind", "times", "told"),
    [
        (200, Kind.DEADLINE, 3, ["dead but healthy"]),
        (200, Kind.SERVER_ERROR, 3, ["dead but healthy"]),
        (200, Kind.DEADLINE, 2, []),
        (200, Kind.OK, 3, []),
        (503, Kind.DEADLINE, 3, []),
        (503, Kind.OK, 3, []),
        (200, Kind.OVERLOADED, 3, []),
    ],
)
def test_health_needs_three_lies(status: int, kind: Kind, times: int, told: list[str]) -> None:
    assert keys(Health, rounds(status, kind, times)) == told


def rest(at: float, running: float, **more: Any) -> Sample:
    return Sample(at=at, why="end", running=running, waiting=0, **more)


def test_quiesce_finds_requests_that_never_leave() -> None:
    asked = sent(0)
    after = [rest(at, 1) for at in (12.0, 14.0, 16.0)]
    assert keys(Quiesce, [asked, answer(asked), *after, ended()]) == ["busy at rest"]
    assert keys(Quiesce, [asked, answer(asked), *after, rest(18.0, 0), ended()]) == []
    assert keys(Quiesce, [asked, answer(asked), *(rest(at, 1) for at in (1.0, 2.0, 3.0)), ended()]) == [], "grace"
    assert (
        keys(Quiesce, [asked, answer(asked), *(rest(at, 0, kv_usage=0.9) for at in (12.0, 14.0, 16.0)), ended()]) == []
    )


@pytest.mark.parametrize(("kind", "told"), [(Kind.DEADLINE, ["capacity lost"]), (Kind.OK, []), (Kind.TOO_LONG, [])])
def test_quiesce_asks_for_the_whole_pool(kind: Kind, told: list[str]) -> None:
    probe = sent(None, "capacity", origin=Origin.ASIDE)
    assert keys(Quiesce, [probe, answer(probe, kind)]) == told


def counted(at: float, tokens: float, **more: Any) -> Sample:
    counters: dict[str, Any] = {"dialect": "vllm"}
    counters |= {"prompt_tokens": 100 + tokens * 2, "generation_tokens": 7 + tokens, "requests_completed": tokens / 10}
    return Sample(at=at, why="step", running=0, **counters | more)


def told_tokens(count: int, kind: Kind = Kind.OK) -> list[Event]:
    events: list[Event] = []
    for number in range(count):
        asked = replace(sent(number), request=f"r{number}")
        usage = Usage(prompt_tokens=20, completion_tokens=10)
        events += [asked, replace(answer(asked, kind), usage=usage if kind is Kind.OK else None)]
    return events


def test_reconcile_finds_books_that_are_short() -> None:
    short = [counted(0, 0), *told_tokens(50), counted(99, 500, generation_tokens=7 + 450), ended()]
    assert keys(Reconcile, short) == ["generation_tokens"]


@pytest.mark.parametrize(
    "last",
    [
        counted(99, 500),
        counted(99, 500, generation_tokens=7 + 492),
        counted(99, 5000),
        counted(99, 500, generation_tokens=None),
        counted(99, 500, prompt_tokens=100, dialect="sglang"),
    ],
    ids=["equal", "one request late", "others use it too", "not exported", "a dialect that leaves cached tokens out"],
)
def test_reconcile_is_silent(last: Sample) -> None:
    assert keys(Reconcile, [counted(0, 0), *told_tokens(50), last, ended()]) == []


def test_reconcile_begins_new_books_after_a_restart_and_expects_nothing_of_cancelled_requests() -> None:
    before, after = counted(0, 900, process_started=1.0), counted(50, 0, process_started=60.0)
    assert keys(Reconcile, [before, *told_tokens(50), after, counted(51, 0, process_started=60.0), ended()]) == []
    assert keys(Reconcile, [counted(0, 0), *told_tokens(50, Kind.CANCELLED), counted(9, 0), ended()]) == []


def test_abort_finds_a_ghost_by_its_gauge_or_by_its_tokens() -> None:
    asked = sent(0)
    cut: list[Event] = [asked, answer(asked, Kind.CANCELLED, status=None)]
    assert keys(Abort, [*cut, rest(12.0, 1)]) == ["goes on"]
    tokens = [rest(at, 0, generation_tokens=at) for at in (12.0, 14.0)]
    assert keys(Abort, [*cut, *tokens]) == ["goes on"]


def test_abort_is_silent_within_its_grace_while_others_run_and_without_a_cancel() -> None:
    asked, other = sent(0), sent(1)
    cut: list[Event] = [asked, answer(asked, Kind.CANCELLED, status=None)]
    assert keys(Abort, [*cut, rest(3.0, 1), rest(12.0, 0)]) == []
    assert keys(Abort, [*cut, other, rest(12.0, 1)]) == []
    assert keys(Abort, [asked, answer(asked), rest(12.0, 1)]) == []


LIMIT = ServerEvent(at=0.0, change=ServerChange.LIMIT, tokens=1000)


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        (Kind.TOO_LONG, []),
        (Kind.DEADLINE, ["never answered"]),
        (Kind.SERVER_ERROR, ["broke"]),
        (Kind.STREAM_ERROR, ["broke"]),
        (Kind.OVERLOADED, []),
    ],
)
def test_admit_wants_what_cannot_fit_refused(kind: Kind, told: list[str]) -> None:
    over = sent(0, tokens=1200, expect=Expect.ANSWER_OR_REFUSAL)
    assert keys(Admit, [LIMIT, over, answer(over, kind)]) == told
    within = sent(0, tokens=900, expect=Expect.ANSWER_OR_REFUSAL)
    assert keys(Admit, [LIMIT, within, answer(within, kind)]) == []


def test_admit_finds_a_prompt_cut_without_a_word() -> None:
    over = sent(0, tokens=1200)
    whole = replace(answer(over), usage=Usage(prompt_tokens=1190, completion_tokens=5))
    assert keys(Admit, [LIMIT, over, whole]) == []
    assert keys(Admit, [LIMIT, over, replace(whole, usage=Usage(prompt_tokens=990, completion_tokens=5))]) == ["cut"]


def together(*kinds: Kind, apart: float = 0.1, expect: Expect = Expect.ANSWER) -> list[Event]:
    asked = [replace(sent(n), request=f"r{n}", expect=expect) for n in range(len(kinds))]
    ends = (
        replace(answer(one, kind), sent=0.0, ended=1.0 + apart * n)
        for n, (one, kind) in enumerate(zip(asked, kinds, strict=True))
    )
    return [*asked, *ends]


def test_blast_finds_the_innocent_that_failed_beside_another() -> None:
    assert keys(Blast, together(Kind.SERVER_ERROR, Kind.SERVER_ERROR)) == ["collateral"]
    assert keys(Blast, together(Kind.SERVER_ERROR, Kind.OK, Kind.OK)) == []
    assert keys(Blast, together(Kind.SERVER_ERROR, Kind.OVERLOADED)) == []
    assert keys(Blast, together(Kind.SERVER_ERROR, Kind.SERVER_ERROR, apart=5.0)) == []
    provokers = together(Kind.SERVER_ERROR, Kind.SERVER_ERROR, expect=Expect.ANSWER_OR_REFUSAL)
    assert keys(Blast, provokers) == []


def stream(number: int, *times: float, tokens: int = 100) -> tuple[RequestSent, Exchange]:
    asked = replace(sent(number, stream=True, tokens=tokens), request=f"r{number}", at=number * 1000.0)
    start = asked.at
    content = tuple(start + time for time in times)
    exchange = Exchange(
        request=asked.request,
        due=start,
        sent=start,
        ended=content[-1],
        kind=Kind.OK,
        status=200,
        chunk_at=content,
        chunk_bytes=(1,) * len(content),
        choices=(Choice(index=0, text="x"),),
    )
    return asked, exchange


def after_four(*times: float, tokens: int = 100) -> list[Event]:
    calm = [event for number in range(4) for event in stream(number, 0.1, 0.2, 0.3)]
    return [*calm, *stream(4, *times, tokens=tokens)]


def test_liveness_finds_a_stream_that_stands_still() -> None:
    assert keys(Liveness, after_four(0.1, 40.0)) == ["late next content"]
    assert keys(Liveness, after_four(90.0)) == ["late first content"]
    assert keys(Liveness, after_four(20.0, 40.0)) == [], "slow is not wrong"
    assert keys(Liveness, after_four(90.0, tokens=100_000)) == [], "a long prompt may take long"


def test_liveness_is_inconclusive_where_kvstress_itself_stood_still() -> None:
    *calm, asked, late = after_four(0.1, 40.0)
    assert isinstance(late, Exchange)
    events = [*calm, asked, Lagged(at=late.sent + 39.0, seconds=30.0), late]
    assert keys(Liveness, events) == []
    assert keys(Liveness, events, Verdict.INCONCLUSIVE) == ["late next content"]


def test_silence_is_inconclusive_where_kvstress_itself_stood_still_for_much_of_it() -> None:
    asked = replace(sent(None, "health"), origin=Origin.ASIDE)
    lost = replace(answer(asked, Kind.DEADLINE, status=None), sent=0.0, ended=12.0)
    assert keys(Liveness, [asked, lost]) == ["deadline:-"]
    lag = Lagged(at=9.0, seconds=8.0)
    assert keys(Liveness, [asked, lag, lost], Verdict.INCONCLUSIVE) == ["deadline:-"]
    stall: list[Event] = [sent(0), waiting(0.0), waiting(30.0), Lagged(at=60.0, seconds=29.0), waiting(61.0)]
    assert keys(Liveness, stall, Verdict.INCONCLUSIVE) == ["stall"]


def waiting(at: float, running: float = 0.0, count: float = 2.0) -> Sample:
    return Sample(at=at, why="interval", running=running, waiting=count)


def test_liveness_finds_a_queue_that_nobody_serves() -> None:
    asked = sent(0)
    assert keys(Liveness, [asked, *(waiting(at) for at in (0.0, 30.0, 61.0))]) == ["stall"]
    assert keys(Liveness, [waiting(at) for at in (0.0, 30.0, 61.0)]) == [], "not ours"
    assert keys(Liveness, [asked, *(waiting(at, running=1) for at in (0.0, 30.0, 61.0))]) == []
    assert keys(Liveness, [asked, waiting(0.0), waiting(30.0), waiting(40.0, 1), waiting(61.0)]) == []


def test_a_queue_that_is_not_served_for_ten_minutes_is_one_finding_and_a_second_stall_another() -> None:
    first: list[Event] = [sent(0), *(waiting(30.0 * turn) for turn in range(20))]
    assert keys(Liveness, first) == ["stall"]
    second = [waiting(600.0, running=1), *(waiting(630.0 + 30.0 * turn) for turn in range(4))]
    assert keys(Liveness, [*first, *second]) == ["stall", "stall"]
