"""The passes that make a case smaller; each proposes, and only a probe that fails the same way accepts.

The order is that of what they save: a smaller pool is filled by fewer prompts, and a prompt that is gone needs not be
made shorter.
"""

from collections.abc import Collection
from dataclasses import replace
from functools import partial

from kvstress.core.case import Case
from kvstress.search.fewer import Pass, each, leave_out
from kvstress.search.fillers import Wording, joined, made_up, without_steps
from kvstress.search.keeper import Attempt
from kvstress.search.plainer import fewer_tokens, shorter, simpler


def passes(wording: Wording) -> tuple[tuple[str, Pass], ...]:
    """All passes by name, in the order in which they are made."""
    return (
        ("smaller pool", smaller_pool),
        ("fewer prompts", fewer_prompts),
        ("fewer sends", fewer_sends),
        ("made-up fillers", partial(made_up, wording=wording)),
        ("joined fillers", partial(joined, wording=wording)),
        ("shorter prompts", shorter),
        ("fewer output tokens", fewer_tokens),
        ("simpler parameters", simpler),
    )


async def smaller_pool(case: Case, still: Attempt) -> Case:
    """The smallest value of the knob at which the case fails the same way; halving, as if there were one boundary."""
    low, high = -1, case.value or 0
    # Invariant: at `high` it fails; at `low` it was seen not to (it passed, refused to start, or failed otherwise).
    while high - low > 1:
        middle = (low + high) // 2
        kept = await still(replace(case, value=middle))
        if kept is None:
            low = middle
        else:
            case, high = kept, middle
    return case


async def fewer_prompts(case: Case, still: Attempt) -> Case:
    """Without the steps that the failure does not need."""
    return await leave_out(case, still, _fillers, without_steps)


async def fewer_sends(case: Case, still: Attempt) -> Case:
    """Without the requests of a step that the failure does not need; first a whole phase, then one at a time."""
    phases = dict.fromkeys(request.phase for request in case.requests)
    case = await each(case, still, [partial(_without_phase, phase=phase) for phase in phases])
    return await leave_out(case, still, _sends, _without_sends)


def _fillers(case: Case) -> list[int]:
    return [step.index for step in case.steps if step.index != case.failing]


def _without_phase(case: Case, phase: str) -> Case:
    """Without `phase` in every step that has another and does not fail."""
    steps = (
        step
        if step.index == case.failing or all(request.phase == phase for request in step.requests)
        else replace(step, requests=tuple(r for r in step.requests if r.phase != phase))
        for step in case.steps
    )
    return replace(case, steps=tuple(steps))


def _sends(case: Case) -> list[str]:
    return [request.id for step in case.steps if len(step.requests) > 1 for request in step.requests]


def _without_sends(case: Case, ids: Collection[str]) -> Case:
    return case.with_requests(lambda request: None if request.id in ids else request)
