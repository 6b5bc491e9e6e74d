"""A twin asked after every step: each answer is held against a cold one, and the run ends at the first that differs.

The twin sees the same prompts, so its own cache would soon hold what is to be cold. So what makes an answer cold is
tried on it as on any server, before the traffic, and used with each prompt. The server under test is asked nothing.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

from kvstress.core.exchange import Exchange
from kvstress.core.outcome import Outcome
from kvstress.core.plan import Plan, Request
from kvstress.core.sizing import Sizing
from kvstress.harness.asides import Asking
from kvstress.harness.cold import means_of, twin
from kvstress.harness.options import RunOptions
from kvstress.workload import asides

# Prompts whose cold answer is not asked for again; COLDWARM remembers a few more.
_ASKED = 96


@dataclass(slots=True, kw_only=True)
class Beside:
    """Notes what each step asked, and asks it again of the twin; `how` makes an answer of the twin cold."""

    asking: Asking
    model: str
    how: str
    reset: str
    patience: float
    calibrate: int
    _noted: dict[int, list[Request]] = field(default_factory=dict)
    _asked: dict[str, None] = field(default_factory=dict)

    def note(self, request: Request, exchange: Exchange) -> None:
        """A request of a step was answered; its holes are filled."""
        if request.step is not None and exchange.outcome is Outcome.COMPLETED and asides.comparable(request):
            self._noted.setdefault(request.step, []).append(request)

    async def compare(self, step: int) -> None:
        """Ask the twin for what `step` asked, but for what it answered a short while ago."""
        for request in self._noted.pop(step, ()):
            if self.asking.recorder.failed:
                return
            if self._again(request):
                continue
            for number in range(self.calibrate if len(self._asked) == 1 else 1):
                await self._ask(request, number)

    async def _ask(self, request: Request, number: int) -> None:
        if self.reset:
            await self.asking.reset(self.reset)
        await self.asking.ask(asides.of_twin(request, self.how, self.model, number), patience=self.patience)

    def _again(self, request: Request) -> bool:
        known = request.recipe in self._asked
        self._asked.pop(request.recipe, None)
        self._asked[request.recipe] = None
        if len(self._asked) > _ASKED:
            del self._asked[next(iter(self._asked))]
        return known


@asynccontextmanager
async def beside(
    asking: Asking, plan: Plan, options: RunOptions, calibrate: int, sizing: Sizing
) -> AsyncIterator[Beside]:
    """The twin of `options`, ready to be asked. Raises CannotJudgeError when it is not there."""
    async with twin(options, asking.clock) as (wire, name):
        there = replace(asking, wire=wire, twin=True)
        model, length = options.model or name, asides.probe_tokens(plan.steps())
        how, reset = await means_of(there, options, lambda *said: asides.probe(model, plan, sizing, length, *said))
        yield Beside(asking=there, model=model, how=how, reset=reset, patience=options.timeout, calibrate=calibrate)
