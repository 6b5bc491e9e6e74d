"""Asking prompts again without the cache once the traffic has ended: what warm answers are held against.

What makes an answer cold differs between engines, and a key that a server does not know may be ignored in silence. So
each means is tried on a prompt that was just shown to hit: only one that then reports no cached token is used.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace

from kvstress.client.wire import Wire
from kvstress.core import cold
from kvstress.core.errors import UsageError
from kvstress.core.exchange import Exchange
from kvstress.core.outcome import Outcome
from kvstress.core.plan import Plan, Request
from kvstress.core.sizing import Sizing
from kvstress.harness.asides import Asking
from kvstress.harness.options import RunOptions
from kvstress.harness.target import Clock, first_look, wire_to
from kvstress.workload import asides
from kvstress.workload.format import Spec

_RESETS = ("/reset_prefix_cache", "/flush_cache")


async def compared_cold(
    asking: Asking, plan: Plan, spec: Spec, options: RunOptions, model: str, sizing: Sizing, done: int
) -> None:
    """Ask the twin, or the server itself by a means that works, for what the traffic asked; nothing where none does.

    A twin that was asked after each step has told all already.
    """
    count = asides.cold_count(spec, twin=options.twin is not None)
    if options.twin is not None and spec.aside.each_step:
        return
    if not count or not done:
        return
    if options.twin is not None:
        async with twin(options, asking.clock) as (wire, name):
            there = replace(asking, wire=wire, twin=True)
            for request in asides.cold_twins(
                plan.steps(), done, count, spec.aside.calibrate, cold.TWIN, options.model or name
            ):
                await there.ask(request, patience=options.timeout)
        return
    length = asides.probe_tokens(plan.steps())
    how, reset = await means_of(asking, options, lambda *said: asides.probe(model, plan, sizing, length, *said))
    if not how:
        return
    for request in asides.cold_twins(plan.steps(), done, count, spec.aside.calibrate, how, None):
        if reset:
            await asking.reset(reset)
        await asking.ask(request, patience=options.timeout)


@asynccontextmanager
async def twin(options: RunOptions, clock: Clock) -> AsyncIterator[tuple[Wire, str]]:
    """A client of the twin, and what it calls its model."""
    async with wire_to(options.twin or "", options, clock) as wire:
        look = await first_look(wire, options.twin or "", options.model)
        yield wire, look.model


async def twin_answers(options: RunOptions, clock: Clock) -> None:
    """See, before anything is measured, that the twin is there. Raises CannotJudgeError or UsageError."""
    if options.twin is None:
        return
    if options.twin == options.server:
        raise UsageError("--twin is the server under test itself: name a second process that sees none of the traffic")
    async with twin(options, clock):
        pass


async def means_of(asking: Asking, options: RunOptions, probe: Callable[[int, str], Request]) -> tuple[str, str]:
    """The means that was seen to work ("" for none), and the path of the reset if it is one."""
    number = 0

    async def cached(how: str) -> int | None:
        nonlocal number
        number += 1
        return _cached(await asking.ask(probe(number, how), patience=options.timeout))

    await cached("")
    again = await cached("")
    if not again:
        # A second send that says that it did not hit is cold itself; one that says nothing may be either.
        return (cold.RESENT, "") if again == 0 else ("", "")
    if await cached("salted") == 0:
        return "salted", ""
    for path in _RESETS:
        if await asking.reset(path) == 200 and await cached("") == 0:
            return "reset", path
    await cached("")
    return ("uncached", "") if await cached("uncached") == 0 else ("", "")


def _cached(exchange: Exchange) -> int | None:
    usage = exchange.usage if exchange.outcome is Outcome.COMPLETED else None
    return usage.cached_tokens if usage else None
