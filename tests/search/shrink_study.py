"""How many probes finding a planted cause takes, beside plain delta debugging: `python -m tests.search.shrink_study`.

Each trial plants 1 to 4 requests among 100 at random; the server fails at the last of them once all were sent. Plain
delta debugging is ddmin with complements and doubling granularity (Zeller and Hildebrandt, 2002), asked of the same
server, cached, and without a view of where a run failed.
"""

import random
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from itertools import pairwise

import anyio

from kvstress.core.case import Case
from kvstress.search.fillers import without_steps
from kvstress.search.keeper import Keeper, Shows
from kvstress.search.passes import fewer_prompts
from kvstress.search.shrink import shrink
from tests.search.simulated import Planted, numbered

REQUESTS = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """Of `trials`: how many ended with the exact cause, and the mean number of probes of each way."""

    trials: int
    exact: int
    probes: float
    confirmed: float
    ddmin: float

    def __str__(self) -> str:
        return (
            f"{self.exact} of {self.trials} exact; mean probes {self.probes:.1f} to find the cause, "
            f"{self.confirmed:.1f} with every confirmation; plain ddmin {self.ddmin:.1f}"
        )


def study(trials: int, seed: int = 1) -> Tally:
    """Run `trials` of them."""
    draw = random.Random(seed)
    exact, probes, confirmed, plain = 0, 0, 0, 0
    for _ in range(trials):
        cause = [f"s{index}.send" for index in sorted(draw.sample(range(REQUESTS), draw.randint(1, 4)))]
        quick, sure = Planted(cause), Planted(cause)
        found = [anyio.run(_found, quick, False), anyio.run(_found, sure, True)]
        exact += all([request.id for request in one.requests] == cause for one in found)
        probes, confirmed = probes + quick.probes, confirmed + sure.probes
        reference = Planted(cause)
        anyio.run(ddmin, reference)
        plain += reference.probes
    return Tally(trials=trials, exact=exact, probes=probes / trials, confirmed=confirmed / trials, ddmin=plain / trials)


async def _found(server: Planted, confirmed: bool) -> Case:
    keeper = Keeper(server)
    if confirmed:
        case = await keeper.baseline(numbered(REQUESTS))
        assert case is not None
        return await shrink(case, keeper, (("fewer prompts", fewer_prompts),), tell=lambda name, now: None)
    first = await keeper.once(numbered(REQUESTS))
    assert first is not None
    return await fewer_prompts(first, keeper.once)


async def ddmin(server: Planted) -> Case:
    """Plain delta debugging over whole prompts."""
    known: dict[str, bool] = {}

    async def fails(case: Case) -> bool:
        if case.digest() not in known:
            known[case.digest()] = (await server(case)).shows is Shows.SAME
        return known[case.digest()]

    case, parts = numbered(REQUESTS), 2
    while len(case.steps) > 1:
        smaller = await _smaller(case, parts, fails)
        if smaller is not None:
            case, parts = smaller
        elif parts >= len(case.steps):
            break
        else:
            parts = min(len(case.steps), 2 * parts)
    return case


async def _smaller(case: Case, parts: int, fails: Callable[[Case], Awaitable[bool]]) -> tuple[Case, int] | None:
    indices = [step.index for step in case.steps]
    bounds = [round(len(indices) * part / parts) for part in range(parts + 1)]
    chunks = [set(indices[a:b]) for a, b in pairwise(bounds)]
    for chunk in chunks:
        alone = without_steps(case, set(indices) - chunk)
        if await fails(alone):
            return alone, 2
    for chunk in chunks if parts > 2 else ():
        rest = without_steps(case, chunk)
        if await fails(rest):
            return rest, max(parts - 1, 2)
    return None


if __name__ == "__main__":
    print(study(int(sys.argv[1]) if len(sys.argv) > 1 else 1000))
