"""Which step may begin next: the first in plan order that nothing before it holds up.

Steps without a session or a barrier come out as the plan gives them, one at a time and none read ahead. A turn of a
session waits until the session's turn before it has ended and its think time is over; meanwhile a lane takes
another session's turn, so that a slow session costs no concurrency. How far a lane looks for one is bounded, because a
plan may be endless.
"""

import math
from collections.abc import Iterator

import anyio

from kvstress.core.plan import Step
from kvstress.driver.halt import Halt

LOOK_AHEAD = 64
_REMEMBERED = 65_536


class Turns:
    """Steps in the order in which they may begin; whoever takes one must say when it ended."""

    def __init__(self, steps: Iterator[Step], halt: Halt) -> None:
        self._steps = steps
        self._halt = halt
        self._waiting: list[Step] = []
        self._under_way: set[int] = set()
        self._sessions: set[str] = set()
        self._ended: dict[str, float] = {}
        self._alone = False
        self._changed = anyio.Event()

    async def take(self) -> Step | None:
        """The next step, once there is one that may begin; None at the plan's end or when the run is stopping."""
        while self._halt.before_request():
            step = self._first_free()
            if step is not None:
                self._begin(step)
                return step
            if not self._waiting and not self._alone:
                return None
            with anyio.CancelScope(deadline=min(self._soonest(), anyio.current_time() + self._halt.left())):
                await self._changed.wait()
        return None

    def end(self, step: Step) -> None:
        """`step` is over, however it went."""
        self._under_way.discard(step.index)
        self._alone = self._alone and not step.barrier
        if step.session is not None:
            self._sessions.discard(step.session)
            self._remember(step.session)
        self.wake()

    def wake(self) -> None:
        """Let every lane that waits for a step look again."""
        self._changed.set()
        self._changed = anyio.Event()

    def _begin(self, step: Step) -> None:
        self._under_way.add(step.index)
        self._alone = step.barrier
        if step.session is not None:
            self._sessions.add(step.session)

    def _first_free(self) -> Step | None:
        if self._alone:
            return None
        held, now = set(self._sessions), anyio.current_time()
        for place, step in enumerate(self._looked_at()):
            if step.barrier:
                return self._waiting.pop(0) if place == 0 and not self._under_way else None
            if step.session is None or (step.session not in held and self._ready_at(step) <= now):
                return self._waiting.pop(place)
            held.add(step.session)
        return None

    def _looked_at(self) -> Iterator[Step]:
        """The steps that wait, then new ones of the plan, which wait from then on."""
        yield from tuple(self._waiting)
        while len(self._waiting) < LOOK_AHEAD:
            step = next(self._steps, None)
            if step is None:
                return
            self._waiting.append(step)
            yield step

    def _ready_at(self, step: Step) -> float:
        """When the session's user has thought. A moment, not a rest of time: a rest rounds to one that never passes."""
        if step.session is None or step.session not in self._ended:
            return -math.inf
        return self._ended[step.session] + step.think

    def _soonest(self) -> float:
        """When the first user has thought, of those sessions that have nothing under way."""
        if self._alone:
            return math.inf
        held, times = set(self._sessions), [math.inf]
        for step in self._waiting:
            if step.session is not None and step.session not in held:
                held.add(step.session)
                times.append(self._ready_at(step))
        return min(times)

    def _remember(self, session: str) -> None:
        self._ended.pop(session, None)
        self._ended[session] = anyio.current_time()
        if len(self._ended) > _REMEMBERED:
            del self._ended[next(iter(self._ended))]
