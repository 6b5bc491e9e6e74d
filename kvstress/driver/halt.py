"""The first reason to stop wins, and from then on everything still under way has 30 seconds.

Several lanes may find a reason in the same moment, and what they were waiting for is
evidence: a request in flight at the failure is judged like any other. But a server that
failed may never answer again, so that the wait needs an end.
"""

import math
from collections.abc import Callable

import anyio

from kvstress.core.events import Stop
from kvstress.core.plan import Limits

DRAIN_SECONDS = 30.0


class Halt:
    """Why and since when a run is ending; `scope` must surround all of its traffic."""

    def __init__(self, limits: Limits, clock: Callable[[], float]) -> None:
        self.scope = anyio.CancelScope()
        self.reason: Stop | None = None
        self.called = anyio.Event()
        self._limits = limits
        self._clock = clock
        self._began = clock()
        self._capped = False

    def call(self, reason: Stop) -> bool:
        """Stop for `reason`; False when the run was already stopping for another."""
        if self.reason is not None:
            return False
        self.reason = reason
        self.called.set()
        # Not fail_after() in the lane that stops: the deadline is for the other lanes.
        self.scope.deadline = anyio.current_time() + DRAIN_SECONDS
        return True

    def before_request(self) -> bool:
        """May another request leave? Checks the run's duration, counted from the start of the traffic."""
        cap = self._limits.max_duration
        if cap is not None and self._clock() - self._began >= cap:
            self.call(Stop.DURATION)
        return self.reason is None

    async def pause(self, seconds: float) -> None:
        """Wait `seconds`, but no longer than the run goes on: a pause is no traffic that has to be drained."""
        if seconds <= 0 or self.reason is not None:
            return
        with anyio.move_on_after(min(seconds, self.left())):
            await self.called.wait()

    def left(self) -> float:
        """Seconds until the run's duration is over; infinite without one."""
        cap = self._limits.max_duration
        return math.inf if cap is None else max(0.0, cap - (self._clock() - self._began))

    def before_step(self, index: int) -> bool:
        """May step `index` begin? `max_steps` counts from step 0, also in a run that was resumed.

        Running out of steps is no stop: the other lanes' steps are within the limit and end in their own time.
        """
        cap = self._limits.max_steps
        self._capped = self._capped or (cap is not None and index >= cap)
        return not self._capped

    def why(self) -> Stop:
        """Why the traffic ended, once it has."""
        return self.reason or (Stop.STEPS if self._capped else Stop.PLAN)
