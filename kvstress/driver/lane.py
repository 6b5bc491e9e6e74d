"""A lane takes the next step when its last one has ended, and sends the step's requests in order.

All lanes run the same code over the same iterator; what differs between them is only where
each one is waiting. Taking a step never awaits, so that two lanes cannot get the same one.
"""

from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass

from anyio.lowlevel import checkpoint

from kvstress.core.events import Event, StepEnded, StepStarted, Stop
from kvstress.core.exchange import Exchange
from kvstress.core.plan import Request, Step
from kvstress.driver.halt import Halt
from kvstress.driver.transcript import Transcript


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """One run's traffic as a lane sees it; may be run several times at once."""

    steps: Iterator[Step]
    halt: Halt
    transcript: Transcript
    dispatch: Callable[[Request, float], Awaitable[Exchange]]
    observe: Callable[[int], Awaitable[None]]
    emit: Callable[[Event], None]
    stop: Callable[[], Stop | None]
    clock: Callable[[], float]

    async def run(self) -> None:
        """Run steps until the plan, a limit or a stop ends it."""
        while self.halt.before_request():
            # A dispatch that answers at once never yields; without this an endless plan could not be cancelled.
            await checkpoint()
            step = next(self.steps, None)
            if step is None or not self.halt.before_step(step.index):
                return
            await self._step(step)

    async def _step(self, step: Step) -> None:
        began = self.clock()
        self.emit(StepStarted(at=began, step=step.index, label=step.label))
        if not await self._requests(step):
            return
        seconds = self.clock() - began
        await self.observe(step.index)
        self.emit(StepEnded(at=self.clock(), step=step.index, label=step.label, seconds=seconds))
        self._ask()

    async def _requests(self, step: Step) -> bool:
        """Send `step`'s requests; False when it was cut, and so does not end."""
        for left, request in zip(range(len(step.requests) - 1, -1, -1), step.requests, strict=True):
            if not self.halt.before_request():
                return False
            exchange = await self.dispatch(self.transcript.resolved(request), self.clock())
            self.transcript.remember(step.index, request.phase, exchange.text)
            if self._ask() and left:
                return self.halt.reason is not Stop.INTERRUPTED
        return True

    def _ask(self) -> bool:
        """Ask whether to stop; True when it is this answer that stops the run."""
        reason = self.stop()
        return reason is not None and self.halt.call(reason)
