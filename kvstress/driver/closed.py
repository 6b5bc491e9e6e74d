"""Drives a plan: in a closed loop each of N lanes sends its next step when its last one has ended.

One lane is the user who waits for every answer, and the only schedule under which "the
prompt that failed" has one meaning; N lanes keep exactly N requests in flight and share one
lazy sequence of steps, so that memory does not grow with the plan. The driver judges nothing: it
asks `stop` after each exchange and each step.

A step ends (StepEnded) when all its requests came back, or when its own exchange brought the
stop: nothing more of it would ever have been sent. A step that *we* cut, by a limit, an
interrupt, the drain's end or a stop that came from another lane, does not end: like the step of a
killed run it must not count as completed, for a run's exposure is the number of ended steps.
"""

from collections.abc import Awaitable, Callable, Iterator

import anyio

from kvstress.core.errors import UsageError
from kvstress.core.events import Event, Stop
from kvstress.core.exchange import Exchange
from kvstress.core.plan import Limits, Request, Schedule, Step
from kvstress.driver.arrivals import arrive
from kvstress.driver.halt import Halt
from kvstress.driver.lane import Lane
from kvstress.driver.transcript import Transcript
from kvstress.driver.turns import Turns


async def drive(
    steps: Iterator[Step],
    schedule: Schedule,
    limits: Limits,
    *,
    dispatch: Callable[[Request, float], Awaitable[Exchange]],
    observe: Callable[[int], Awaitable[None]],
    emit: Callable[[Event], None],
    stop: Callable[[], Stop | None],
    clock: Callable[[], float],
    transcript: Transcript | None = None,
) -> Stop:
    """Send `steps` and say why that ended; PLAN when there are no more.

    `dispatch(request, due)` sends one request whose answer holes are filled; `due` is in seconds
    of `clock`: now in a closed loop, the planned time in an open one. `observe(step)` runs between a step's last
    exchange and its StepEnded. `max_duration` counts from this call and is checked before each wave of requests: a
    request that has left is never cut by it. After a stop, what is in flight has 30 s, then is cancelled: `dispatch`
    sees the cancellation. `transcript` may hold the answers of an earlier part of the run. What
    `dispatch`, `observe`, `emit`, `stop` or `steps` raise cancels the other lanes and comes out as it is.
    """
    if schedule.kind not in ("closed", "open") or schedule.lanes < 1:
        raise UsageError(
            f"cannot drive a {schedule.kind!r} schedule with {schedule.lanes} lanes: use closed or open, lanes >= 1"
        )
    halt = Halt(limits, clock)
    lane = Lane(
        turns=Turns(steps, halt),
        halt=halt,
        transcript=Transcript() if transcript is None else transcript,
        dispatch=dispatch,
        observe=observe,
        emit=emit,
        stop=stop,
        clock=clock,
    )
    try:
        with halt.scope:
            async with anyio.create_task_group() as traffic:
                if schedule.kind == "open":
                    traffic.start_soon(arrive, steps, lane, halt)
                for _ in range(schedule.lanes if schedule.kind == "closed" else 0):
                    traffic.start_soon(lane.run)
    except BaseExceptionGroup as group:
        raise_alone(group)
    return halt.why()


def raise_alone(group: BaseExceptionGroup[BaseException]) -> None:
    """Raise the first error of `group` itself, further ones noted on it; a pure cancellation as it is."""
    _, errors = group.split(anyio.get_cancelled_exc_class())
    if errors is None:
        raise group
    first, *others = _leaves(errors)
    for other in others:
        first.add_note(f"another lane failed as well: {type(other).__name__}: {other}")
    raise first from first.__cause__


def _leaves(error: BaseException) -> Iterator[BaseException]:
    """The errors themselves: a wave's requests fail in a group within the lanes' group."""
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from _leaves(inner)
    else:
        yield error
