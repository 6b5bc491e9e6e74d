"""A lane takes the next step when its last one has ended, and sends the step's requests in order.

All lanes run the same code over the same steps; what differs between them is only where each one is waiting.
Requests that leave beside one another are one wave: the next wave leaves when all of them have come back.
"""

from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise

import anyio
from anyio.lowlevel import checkpoint

from kvstress.core.events import Event, StepEnded, StepStarted, Stop
from kvstress.core.exchange import Exchange
from kvstress.core.plan import Request, Step
from kvstress.driver.halt import Halt
from kvstress.driver.transcript import Transcript
from kvstress.driver.turns import Turns

Wave = tuple[Request, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """One run's traffic as a lane sees it; may be run several times at once."""

    turns: Turns
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
            step = await self.turns.take()
            if step is None:
                return
            try:
                if not self.halt.before_step(step.index):
                    return
                await self.step(step)
            finally:
                self.turns.end(step)

    async def step(self, step: Step, due: float | None = None) -> None:
        """Send one step; its first wave was due at `due`, or is due now."""
        began = self.clock()
        self.emit(StepStarted(at=began, step=step.index, label=step.label))
        if not await self._waves(step, due):
            return
        seconds = self.clock() - began
        await self.observe(step.index)
        self.emit(StepEnded(at=self.clock(), step=step.index, label=step.label, seconds=seconds))
        self._ask()

    async def _waves(self, step: Step, due: float | None) -> bool:
        """Send `step`'s requests; False when it was cut, and so does not end."""
        left = len(step.requests)
        for wave in waves(step.requests):
            await self.halt.pause(wave[0].delay)
            if not self.halt.before_request():
                return False
            left -= len(wave)
            if await self._wave(step, wave, self.clock() if due is None else due) and left:
                return self.halt.reason is not Stop.INTERRUPTED
            due = None
        return True

    async def _wave(self, step: Step, wave: Wave, due: float) -> bool:
        """Send `wave` at one moment; True when one of its answers brought the stop."""
        if len(wave) == 1:
            return await self._send(step, wave[0], due)
        brought: list[bool] = []

        async def one(request: Request) -> None:
            brought.append(await self._send(step, request, due))

        async with anyio.create_task_group() as together:
            for request in wave:
                together.start_soon(one, request)
        return any(brought)

    async def _send(self, step: Step, request: Request, due: float) -> bool:
        exchange = await self.dispatch(self.transcript.resolved(request), due)
        self.transcript.remember(step.index, request.phase, exchange.text)
        return self._ask()

    def _ask(self) -> bool:
        """Ask whether to stop; True when it is this answer that stops the run."""
        reason = self.stop()
        stopped = reason is not None and self.halt.call(reason)
        if stopped:
            self.turns.wake()
        return stopped


def waves(requests: tuple[Request, ...]) -> Iterator[Wave]:
    """`requests` cut before each one that is not beside the one before it."""
    begins = [place for place, request in enumerate(requests) if place == 0 or not request.beside]
    for first, after in pairwise([*begins, len(requests)]):
        yield requests[first:after]
