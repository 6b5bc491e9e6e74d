"""Open loop: a step leaves when it is due, not when the server is ready.

A closed loop stops asking exactly when the server is slowest, and so never measures the stall. Here a late
server makes a long queue, and the queue is what we came to see: a request that leaves late, because the machine was
busy or its session's last turn had not ended, keeps the time at which it was due.
"""

import math
from collections.abc import Iterator

import anyio

from kvstress.core.plan import Step
from kvstress.driver.halt import Halt
from kvstress.driver.lane import Lane

# Enough for any server under test, and few enough that one which answers nothing cannot exhaust our memory.
MOST_UNDER_WAY = 10_000


def pace(elapsed: float, due: float | None) -> float:
    """Seconds to wait before a step may leave that is due at `due`, `elapsed` seconds into the traffic; never below 0.

    A step without a due time is due now.
    """
    return 0.0 if due is None else max(0.0, due - elapsed)


async def arrive(steps: Iterator[Step], lane: Lane, halt: Halt) -> None:
    """Start each of `steps` when it is due, counted from the first one, until the plan, a limit or a stop ends it.

    A barrier step begins when all before it have ended; what falls due meanwhile leaves late and keeps its time.
    """
    room = anyio.Semaphore(MOST_UNDER_WAY)
    turns: dict[str, anyio.Event] = {}
    going: set[anyio.Event] = set()
    origin: float | None = None
    async with anyio.create_task_group() as under_way:
        while halt.before_request():
            step = next(steps, None)
            if step is None or not halt.before_step(step.index):
                return
            # A resumed run goes on in the middle of its plan: what is due first is due at once.
            origin = lane.clock() - (step.due or 0.0) if origin is None else origin
            await halt.pause(pace(lane.clock() - origin, step.due))
            await room.acquire()
            if not halt.before_request():
                return
            due = lane.clock() if step.due is None else origin + step.due
            over = anyio.Event()
            before = turns.get(step.session) if step.session else None
            if step.session:
                turns[step.session] = over
            going = {one for one in going if not one.is_set()}
            if step.barrier:
                for one in going:
                    await _either(one, halt)
                await _turn(lane, step, due, before, over, turns, room)
            else:
                going.add(over)
                under_way.start_soon(_turn, lane, step, due, before, over, turns, room)


async def _turn(
    lane: Lane,
    step: Step,
    due: float,
    before: anyio.Event | None,
    over: anyio.Event,
    turns: dict[str, anyio.Event],
    room: anyio.Semaphore,
) -> None:
    """One step; a session's turn first waits for the one before it, and for its user to think."""
    try:
        if before is not None:
            await _either(before, lane.halt)
            await lane.halt.pause(step.think)
        if lane.halt.before_request():
            await lane.step(step, due)
    finally:
        over.set()
        room.release()
        if step.session and turns.get(step.session) is over:
            del turns[step.session]


async def _either(before: anyio.Event, halt: Halt) -> None:
    """Wait for the turn before, or for the run to stop."""
    async with anyio.create_task_group() as waiting:

        async def stopped() -> None:
            await halt.pause(math.inf)
            waiting.cancel_scope.cancel()

        waiting.start_soon(stopped)
        await before.wait()
        waiting.cancel_scope.cancel()
