"""The closed loop in virtual time: what is sent when, what ends a run, and what a cut step leaves behind."""

from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from itertools import count, islice
from typing import Any, TypeVar

import anyio
import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st
from trio.testing import MockClock

from kvstress.core.errors import UsageError
from kvstress.core.events import Event, StepEnded, StepStarted, Stop
from kvstress.core.exchange import Choice, Exchange
from kvstress.core.outcome import Kind
from kvstress.core.plan import Answer, Limits, Request, Schedule, Step
from kvstress.driver.closed import drive
from kvstress.driver.transcript import Transcript

T = TypeVar("T")


def step(index: int, phases: tuple[str, ...] = ("prime", "warm")) -> Step:
    requests = (Request(id=f"s{index}.{p}", step=index, phase=p, body={"prompt": f"{index}/{p}"}) for p in phases)
    return Step(index=index, label="16k", requests=tuple(requests))


def endless() -> Iterator[Step]:
    return (step(index) for index in count())


def plan(steps: int) -> Iterator[Step]:
    return islice(endless(), steps)


@dataclass
class Server:
    """Answers after `seconds[id]` (default `each`); `log` says in order what the driver did, and when."""

    each: float = 1.0
    seconds: dict[str, float] = field(default_factory=dict)
    scrape: float = 0.0
    stops: dict[str, Stop] = field(default_factory=dict)
    raises: dict[str, Exception] = field(default_factory=dict)
    log: list[tuple[float, str]] = field(default_factory=list)
    bodies: dict[str, Any] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)
    in_flight: int = 0
    peak: int = 0
    reason: Stop | None = None

    def note(self, what: str) -> None:
        self.log.append((round(trio.current_time(), 3), what))

    async def dispatch(self, request: Request, due: float) -> Exchange:
        assert due == trio.current_time(), "a closed loop's request is due now"
        self.note(request.id)
        self.bodies[request.id] = request.body
        self.in_flight += 1
        self.peak = max(self.peak, self.in_flight)
        try:
            await anyio.sleep(self.seconds.get(request.id, self.each))
        except trio.Cancelled:
            self.note(f"{request.id} cancelled")
            raise
        finally:
            self.in_flight -= 1
        if request.id in self.raises:
            raise self.raises[request.id]
        self.reason = self.reason or self.stops.get(request.id)
        text = Choice(index=0, text=f"answer to {request.id}")
        return Exchange(request=request.id, due=due, sent=due, ended=trio.current_time(), kind=Kind.OK, choices=(text,))

    async def observe(self, index: int) -> None:
        await anyio.sleep(self.scrape)
        self.note(f"scrape {index}")
        self.reason = self.reason or self.stops.get(f"scrape {index}")

    def emit(self, event: Event) -> None:
        self.events.append(event)
        if isinstance(event, StepStarted):
            self.note(f"start {event.step}")
        elif isinstance(event, StepEnded):
            self.note(f"end {event.step}")

    async def driven(self, steps: Iterator[Step], lanes: int = 1, **limits: Any) -> Stop:
        return await drive(
            steps,
            Schedule(lanes=lanes),
            Limits(**limits),
            dispatch=self.dispatch,
            observe=self.observe,
            emit=self.emit,
            stop=lambda: self.reason,
            clock=trio.current_time,
            transcript=Transcript(),
        )

    def said(self, word: str) -> list[int]:
        return [int(what.split()[1]) for _, what in self.log if what.startswith(word)]


def virtual(main: Callable[[], Awaitable[T]]) -> T:
    return trio.run(main, clock=MockClock(autojump_threshold=0))


def test_one_lane_sends_the_phases_in_order_and_scrapes_before_the_step_ends() -> None:
    server = Server(scrape=0.5)
    assert virtual(lambda: server.driven(plan(2))) is Stop.PLAN
    assert server.log == [
        (0.0, "start 0"),
        (0.0, "s0.prime"),
        (1.0, "s0.warm"),
        (2.5, "scrape 0"),
        (2.5, "end 0"),
        (2.5, "start 1"),
        (2.5, "s1.prime"),
        (3.5, "s1.warm"),
        (5.0, "scrape 1"),
        (5.0, "end 1"),
    ]


def test_a_step_s_time_leaves_the_scrape_out() -> None:
    server = Server(scrape=7.0)
    virtual(lambda: server.driven(plan(1)))
    (ended,) = [event for event in server.events if isinstance(event, StepEnded)]
    assert (ended.seconds, ended.at) == (2.0, 9.0)


STOPS: tuple[tuple[str, dict[str, Stop], dict[str, Any], Stop, list[str], list[int]], ...] = (
    ("a failing prime skips its warm, is scraped, and ends", {"s1.prime": Stop.FAILURE}, {}, Stop.FAILURE,
     ["s0.prime", "s0.warm", "s1.prime"], [0, 1]),
    ("a failing warm ends its step", {"s1.warm": Stop.FAILURE}, {}, Stop.FAILURE,
     ["s0.prime", "s0.warm", "s1.prime", "s1.warm"], [0, 1]),
    ("a refusal ends its step", {"s0.prime": Stop.REFUSAL}, {}, Stop.REFUSAL, ["s0.prime"], [0]),
    ("a scrape may bring the stop too", {"scrape 0": Stop.SERVER_GONE}, {}, Stop.SERVER_GONE,
     ["s0.prime", "s0.warm"], [0]),
    ("an interrupted step does not count as completed", {"s1.prime": Stop.INTERRUPTED}, {}, Stop.INTERRUPTED,
     ["s0.prime", "s0.warm", "s1.prime"], [0]),
    ("an interrupt at a step's last exchange leaves it whole", {"s0.warm": Stop.INTERRUPTED}, {}, Stop.INTERRUPTED,
     ["s0.prime", "s0.warm"], [0]),
    ("max_steps", {}, {"max_steps": 1}, Stop.STEPS, ["s0.prime", "s0.warm"], [0]),
    ("max_steps of nothing", {}, {"max_steps": 0}, Stop.STEPS, [], []),
    ("a plan as long as max_steps was completed", {}, {"max_steps": 3}, Stop.PLAN,
     [f"s{k}.{phase}" for k in range(3) for phase in ("prime", "warm")], [0, 1, 2]),
    ("the duration cuts between two requests of a step", {}, {"max_duration": 3.0}, Stop.DURATION,
     ["s0.prime", "s0.warm", "s1.prime"], [0]),
    ("the duration never cuts a request that has left", {}, {"max_duration": 2.5}, Stop.DURATION,
     ["s0.prime", "s0.warm", "s1.prime"], [0]),
    ("no time at all", {}, {"max_duration": 0.0}, Stop.DURATION, [], []),
    ("keep_going is the judge's business: a stop that never comes", {}, {"keep_going": True}, Stop.PLAN,
     [f"s{k}.{phase}" for k in range(3) for phase in ("prime", "warm")], [0, 1, 2]),
)  # fmt: skip


@pytest.mark.parametrize(("why", "stops", "limits", "reason", "sent", "ended"), STOPS, ids=[row[0] for row in STOPS])
def test_what_ends_a_run_and_what_it_leaves(
    why: str, stops: dict[str, Stop], limits: dict[str, Any], reason: Stop, sent: list[str], ended: list[int]
) -> None:
    server = Server(stops=stops)
    assert virtual(lambda: server.driven(plan(3), **limits)) is reason, why
    assert list(server.bodies) == sent
    assert server.said("end") == ended == server.said("scrape")


def test_a_resumed_run_counts_max_steps_from_step_0() -> None:
    server = Server()
    assert virtual(lambda: server.driven(islice(endless(), 3, None), max_steps=5)) is Stop.STEPS
    assert server.said("end") == [3, 4]


@given(
    lanes=st.integers(1, 6),
    steps=st.integers(0, 12),
    times=st.lists(st.floats(0, 9), min_size=1, max_size=24),
    cap=st.none() | st.integers(0, 12),
)
@settings(max_examples=60, deadline=None)
def test_n_lanes_hold_at_most_n_in_flight_and_send_each_step_once(
    lanes: int, steps: int, times: list[float], cap: int | None
) -> None:
    ids = [f"s{k}.{phase}" for k in range(steps) for phase in ("prime", "warm")]
    server = Server(seconds={name: times[i % len(times)] for i, name in enumerate(ids)})
    reason = virtual(lambda: server.driven(plan(steps), lanes, max_steps=cap))
    run = steps if cap is None else min(steps, cap)
    assert server.peak <= lanes
    assert sorted(server.said("end")) == list(range(run)) == server.said("start")
    assert len(server.bodies) == 2 * run
    assert reason is (Stop.STEPS if run < steps else Stop.PLAN)


def test_n_lanes_keep_n_in_flight_while_there_are_steps() -> None:
    server = Server()
    virtual(lambda: server.driven(plan(9), 3))
    assert server.peak == 3
    assert server.log[-1][0] == 6.0, "nine steps of two seconds on three lanes"


def test_the_steps_of_other_lanes_within_max_steps_end_in_their_own_time() -> None:
    server = Server(seconds={"s0.prime": 500.0, "s0.warm": 500.0})
    assert virtual(lambda: server.driven(endless(), 2, max_steps=3)) is Stop.STEPS
    assert server.log[-1] == (1000.0, "end 0")


def test_a_request_in_flight_at_a_stop_is_awaited_and_the_rest_of_its_step_is_not_sent() -> None:
    server = Server(stops={"s1.prime": Stop.FAILURE}, seconds={"s0.prime": 20.0})
    assert virtual(lambda: server.driven(endless(), 2)) is Stop.FAILURE
    assert list(server.bodies) == ["s0.prime", "s1.prime"]
    assert "s0.prime cancelled" not in [what for _, what in server.log]
    assert server.said("end") == [1], "a step cut by another lane's stop does not count as completed"


def test_a_request_that_outlives_the_drain_is_cancelled_30_seconds_after_the_stop() -> None:
    server = Server(stops={"s1.prime": Stop.FAILURE}, seconds={"s0.prime": 900.0})
    assert virtual(lambda: server.driven(endless(), 2)) is Stop.FAILURE
    assert server.log[-1] == (31.0, "s0.prime cancelled")


def test_a_scrape_that_hangs_after_the_failure_ends_with_the_drain() -> None:
    server = Server(stops={"s0.prime": Stop.FAILURE}, scrape=900.0)

    async def timed() -> tuple[Stop, float]:
        return await server.driven(endless()), trio.current_time()

    assert virtual(timed) == (Stop.FAILURE, 31.0)


def test_the_first_reason_wins_when_two_lanes_find_one_in_the_same_moment() -> None:
    server = Server()
    answers = iter((Stop.FAILURE, Stop.SERVER_GONE, Stop.SERVER_GONE))

    async def main() -> Stop:
        return await drive(
            endless(), Schedule(lanes=2), Limits(), dispatch=server.dispatch, observe=server.observe,
            emit=server.emit, stop=lambda: next(answers, Stop.SERVER_GONE), clock=trio.current_time,
        )  # fmt: skip

    assert virtual(main) is Stop.FAILURE


@pytest.mark.parametrize("lanes", [1, 3])
def test_an_error_in_dispatch_comes_out_as_itself_and_cancels_the_other_lanes(lanes: int) -> None:
    full = OSError(28, "No space left on device")
    full.__cause__ = ValueError("the cause stays")
    server = Server(raises={"s0.warm": full}, seconds={"s1.prime": 50.0, "s2.prime": 60.0})
    with pytest.raises(OSError, match="No space left") as caught:
        virtual(lambda: server.driven(endless(), lanes))
    assert caught.value is full
    assert str(caught.value.__cause__) == "the cause stays"
    assert server.in_flight == 0
    assert max(at for at, _ in server.log) <= 2.0


def test_an_error_and_the_error_of_a_lane_that_it_cancelled_come_out_as_one_that_names_the_other() -> None:
    async def dispatch(request: Request, due: float) -> Exchange:
        try:
            await anyio.sleep(1.0 if request.step == 0 else 9.0)
        except trio.Cancelled:
            raise OSError("the record of the cancelled request could not be written") from None
        raise OSError("disk full")

    async def main() -> Stop:
        return await drive(
            endless(), Schedule(lanes=2), Limits(), dispatch=dispatch, observe=anyio.sleep, emit=lambda _: None,
            stop=lambda: None, clock=trio.current_time,
        )  # fmt: skip

    with pytest.raises(OSError, match=r"disk full|could not be written") as caught:
        virtual(main)
    assert caught.value.__notes__[0].startswith("another lane failed as well: OSError: ")


def test_errors_in_the_plan_the_scrape_and_the_store_come_out_as_they_are() -> None:
    def bad() -> Iterator[Step]:
        yield step(0)
        raise UsageError("row 7 has no prompt")

    with pytest.raises(UsageError, match="row 7"):
        virtual(lambda: Server().driven(bad(), 2))


def test_a_cancel_from_outside_ends_no_step() -> None:
    server = Server()

    async def main() -> bool:
        with anyio.move_on_after(1.5) as scope:
            await server.driven(endless(), 2)
        return scope.cancelled_caught

    assert virtual(main)
    assert server.said("start") == [0, 1]
    assert server.said("end") == []


def test_an_endless_plan_whose_answers_come_at_once_can_be_cancelled() -> None:
    sent: list[str] = []

    async def at_once(request: Request, due: float) -> Exchange:
        sent.append(request.id)
        return Exchange(request=request.id, due=due, sent=due, ended=due, kind=Kind.OK)

    async def main() -> None:
        with anyio.CancelScope() as scope:
            await drive(
                endless(), Schedule(), Limits(), dispatch=at_once, observe=anyio.sleep, emit=lambda _: None,
                stop=lambda: scope.cancel() if len(sent) > 100 else None, clock=trio.current_time,
            )  # fmt: skip

    virtual(main)
    assert 100 < len(sent) < 110


@pytest.mark.parametrize("schedule", [Schedule(lanes=0), Schedule(kind="poisson", lanes=1)])
def test_a_schedule_that_is_not_a_closed_loop_is_refused_in_a_sentence(schedule: Schedule) -> None:
    server = Server()

    async def main() -> Stop:
        return await drive(
            plan(1), schedule, Limits(), dispatch=server.dispatch, observe=server.observe, emit=server.emit,
            stop=lambda: None, clock=trio.current_time,
        )  # fmt: skip

    with pytest.raises(UsageError, match="closed"):
        virtual(main)


def test_a_later_request_quotes_what_the_server_answered() -> None:
    quoting = Request(id="s1.ask", step=1, phase="ask", body={"messages": [{"content": Answer(step=0, phase="warm")}]})
    server = Server()
    virtual(lambda: server.driven(iter([step(0), Step(index=1, label="", requests=(quoting,))])))
    assert server.bodies["s1.ask"] == {"messages": [{"content": "answer to s0.warm"}]}
    assert quoting.body["messages"][0]["content"] == Answer(step=0, phase="warm"), "the plan is left as it was"
