"""Sessions, waves, barriers and the open loop in virtual time."""

from collections.abc import Iterator
from itertools import count, islice
from typing import Any

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from kvstress.core.events import Stop
from kvstress.core.exchange import Exchange
from kvstress.core.outcome import Kind
from kvstress.core.plan import Limits, Request, Schedule, Step
from kvstress.driver.arrivals import pace
from kvstress.driver.closed import drive
from kvstress.driver.lane import waves
from tests.driver.test_closed import Server, virtual

Log = list[tuple[float, str]]


def turn(index: int, session: str | None, *, think: float = 0.0, **more: Any) -> Step:
    request = Request(id=f"s{index}", step=index, phase="turn", body={})
    return Step(index=index, label="", requests=(request,), session=session, think=think, **more)


def sent(server: Server) -> Log:
    """What left when; by name where it was the same moment, because trio starts tasks in any order."""
    return sorted(entry for entry in server.log if entry[1] in server.bodies)


def test_turns_of_one_session_never_overlap_and_another_session_fills_the_lane() -> None:
    steps = [turn(0, "a"), turn(1, "a"), turn(2, "b"), turn(3, "b")]
    server = Server()
    assert virtual(lambda: server.driven(iter(steps), 2)) is Stop.PLAN
    assert sent(server) == [(0.0, "s0"), (0.0, "s2"), (1.0, "s1"), (1.0, "s3")]


def test_a_lane_does_not_wait_for_a_user_who_thinks() -> None:
    steps = [turn(0, "a"), turn(1, "a", think=10.0), turn(2, "b"), turn(3, "b")]
    server = Server()
    virtual(lambda: server.driven(iter(steps), 1))
    assert sent(server) == [(0.0, "s0"), (1.0, "s2"), (2.0, "s3"), (11.0, "s1")]


def test_the_duration_is_not_slept_through_by_a_user_who_thinks() -> None:
    server = Server()
    steps = [turn(0, "a"), turn(1, "a", think=1000.0)]
    assert virtual(lambda: server.driven(iter(steps), 1, max_duration=30.0)) is Stop.DURATION
    assert sent(server) == [(0.0, "s0")]


def test_a_failure_wakes_the_lanes_that_wait_for_a_turn() -> None:
    server = Server(seconds={"s0": 3.0}, stops={"s0": Stop.FAILURE})
    steps = [turn(0, "a"), turn(1, "a"), turn(2, "a")]

    async def timed() -> float:
        assert await server.driven(iter(steps), 3) is Stop.FAILURE
        return trio.current_time()

    assert virtual(timed) == 3.0
    assert sent(server) == [(0.0, "s0")]


def test_a_session_without_end_is_read_ahead_only_so_far() -> None:
    taken = 0

    def endless() -> Iterator[Step]:
        nonlocal taken
        for taken in count():
            yield turn(taken, "only")

    server = Server()
    virtual(lambda: server.driven(endless(), 2, max_steps=3))
    assert taken < 100


def test_a_barrier_waits_for_all_before_it_and_all_after_it_wait() -> None:
    steps = [turn(0, None), turn(1, None), turn(2, None, barrier=True), turn(3, None), turn(4, None)]
    server = Server(seconds={"s0": 5.0})
    virtual(lambda: server.driven(iter(steps), 2))
    assert sent(server) == [(0.0, "s0"), (0.0, "s1"), (5.0, "s2"), (6.0, "s3"), (6.0, "s4")]


@given(
    lanes=st.integers(1, 4),
    sessions=st.lists(st.sampled_from(["a", "b", "c", None]), max_size=14),
    times=st.lists(st.floats(0, 9), min_size=1, max_size=14),
)
@settings(max_examples=60, deadline=None)
def test_every_turn_is_sent_once_and_a_session_s_turns_in_order(
    lanes: int, sessions: list[str | None], times: list[float]
) -> None:
    steps = [turn(i, session, think=times[i % len(times)] / 2) for i, session in enumerate(sessions)]
    server = Server(seconds={f"s{i}": times[i % len(times)] for i in range(len(steps))})
    assert virtual(lambda: server.driven(iter(steps), lanes)) is Stop.PLAN
    assert sorted(server.said("end")) == list(range(len(steps)))
    assert server.peak <= lanes
    for session in ("a", "b", "c"):
        mine = [index for index, name in enumerate(sessions) if name == session]
        ordered = [what for _, what in server.log if what.split()[0] in ("start", "end")]
        places = [ordered.index(f"{word} {index}") for index in mine for word in ("start", "end")]
        assert places == sorted(places)


WAVES = (
    ("one after the other", [False, False, False], [["r0"], ["r1"], ["r2"]]),
    ("beside the one before", [False, True, False], [["r0", "r1"], ["r2"]]),
    ("nothing stands before the first", [True, True], [["r0", "r1"]]),
    ("all at once", [False, True, True], [["r0", "r1", "r2"]]),
)


@pytest.mark.parametrize(("why", "beside", "found"), WAVES, ids=[row[0] for row in WAVES])
def test_requests_beside_one_another_are_one_wave(why: str, beside: list[bool], found: list[list[str]]) -> None:
    requests = tuple(
        Request(id=f"r{n}", step=0, phase=f"p{n}", body={}, beside=together) for n, together in enumerate(beside)
    )
    assert [[request.id for request in wave] for wave in waves(requests)] == found, why


def wave_of(*requests: tuple[str, bool, float]) -> Step:
    made = (Request(id=n, step=0, phase=n, body={}, beside=beside, delay=delay) for n, beside, delay in requests)
    return Step(index=0, label="", requests=tuple(made))


def test_a_wave_leaves_at_one_moment_and_the_next_one_after_all_of_it_and_its_pause() -> None:
    step = wave_of(("a", False, 0), ("b", True, 0), ("c", False, 7.0))
    server = Server(seconds={"a": 1.0, "b": 4.0})
    virtual(lambda: server.driven(iter([step])))
    assert sent(server) == [(0.0, "a"), (0.0, "b"), (11.0, "c")]


def test_a_failure_within_a_wave_lets_the_rest_of_it_drain_and_ends_the_step() -> None:
    step = wave_of(("a", False, 0), ("b", True, 0), ("c", False, 0))
    server = Server(seconds={"b": 4.0}, stops={"a": Stop.FAILURE})
    assert virtual(lambda: server.driven(iter([step]))) is Stop.FAILURE
    assert sent(server) == [(0.0, "a"), (0.0, "b")]
    assert server.log[-2:] == [(4.0, "scrape 0"), (4.0, "end 0")]


def test_an_error_within_a_wave_comes_out_as_it_is() -> None:
    server = Server(raises={"b": OSError("disk full")})
    with pytest.raises(OSError, match="disk full"):
        virtual(lambda: server.driven(iter([wave_of(("a", False, 0), ("b", True, 0))])))


PACES = (
    ("before it is due there is time left", 1.0, 3.0, 2.0),
    ("on time it leaves", 3.0, 3.0, 0.0),
    ("late it leaves at once", 9.0, 3.0, 0.0),
    ("without a due time it is due now", 9.0, None, 0.0),
)


@pytest.mark.parametrize(("why", "elapsed", "due", "wait"), PACES, ids=[row[0] for row in PACES])
def test_a_step_waits_until_it_is_due(why: str, elapsed: float, due: float | None, wait: float) -> None:
    assert pace(elapsed, due) == wait, why


def opened(steps: Iterator[Step], seconds: float, **limits: Any) -> tuple[Stop, list[tuple[str, float, float]]]:
    """Drive an open loop; says of each request its id, when it was due and when it left."""
    left: list[tuple[str, float, float]] = []

    async def dispatch(request: Request, due: float) -> Exchange:
        now = trio.current_time()
        left.append((request.id, round(due, 6), round(now, 6)))
        await trio.sleep(seconds)
        return Exchange(request=request.id, due=due, sent=now, ended=trio.current_time(), kind=Kind.OK)

    async def nothing(step: int) -> None:
        del step

    async def main() -> Stop:
        return await drive(
            steps, Schedule(kind="open"), Limits(**limits), dispatch=dispatch, observe=nothing,
            emit=lambda _: None, stop=lambda: None, clock=trio.current_time,
        )  # fmt: skip

    return virtual(main), left


def due(times: list[float]) -> Iterator[Step]:
    return (turn(index, None, due=at) for index, at in enumerate(times))


def test_an_open_loop_sends_on_time_though_the_server_answers_nothing() -> None:
    stop, left = opened(due([0.0, 1.0, 1.0, 2.5]), seconds=100.0)
    assert stop is Stop.PLAN
    assert left == [("s0", 0.0, 0.0), ("s1", 1.0, 1.0), ("s2", 1.0, 1.0), ("s3", 2.5, 2.5)]


def test_a_turn_that_had_to_wait_for_its_session_keeps_the_time_it_was_due() -> None:
    steps = [turn(0, "a", due=0.0), turn(1, "a", due=1.0), turn(2, "b", due=1.5)]
    _, left = opened(iter(steps), seconds=4.0)
    assert left == [("s0", 0.0, 0.0), ("s2", 1.5, 1.5), ("s1", 1.0, 4.0)]


def test_a_resumed_open_loop_does_not_wait_for_the_part_that_is_done() -> None:
    steps = islice(due([0.0, 50.0, 51.0]), 1, None)
    assert opened(steps, seconds=0.1)[1] == [("s1", 0.0, 0.0), ("s2", 1.0, 1.0)]


def test_an_open_loop_ends_with_its_duration() -> None:
    stop, left = opened((turn(n, None, due=float(n)) for n in count()), seconds=0.5, max_duration=4.5)
    assert (stop, len(left)) == (Stop.DURATION, 5)


def test_a_barrier_in_an_open_loop_waits_for_those_before_it_and_makes_those_after_it_late() -> None:
    steps = [turn(0, None, due=0.0), turn(1, None, due=1.0, barrier=True), turn(2, None, due=2.0)]
    _, left = opened(iter(steps), seconds=4.0)
    assert left == [("s0", 0.0, 0.0), ("s1", 1.0, 4.0), ("s2", 2.0, 8.0)]
