"""What matters of a filler is its pages: so its text may be made up, and one may take the pages of several.

Fillers are replaced by generated text of the same length, joined into a longer one, or asked for at once. On an
engine where such a request fills nothing the proposal simply fails.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import takewhile
from typing import Any

from kvstress.core.case import Case, Piece, Text, pieces
from kvstress.core.plan import Step
from kvstress.search.fewer import each
from kvstress.search.keeper import Attempt

_MOST_CHOICES = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Wording:
    """What the passes need to know of texts: `made(n, text)` is generated text as long as `text`, the n-th of its kind.

    `longest` is the number of units that still fit the server's context, None when it is not known.
    """

    made: Callable[[int, Text], Text]
    longest: int | None = None


def without_steps(case: Case, indices: Collection[int]) -> Case:
    """The case without those steps."""
    return replace(case, steps=tuple(step for step in case.steps if step.index not in indices))


async def made_up(case: Case, still: Attempt, wording: Wording) -> Case:
    """Generated text in place of text that was given: all of it at once, then text by text."""
    given = [name for name, text in case.used().items() if text.words is not None]
    swap = partial(_swapped, wording=wording)
    return await each(case, still, [partial(swap, names=given), *(partial(swap, names=[name]) for name in given)])


def _swapped(case: Case, names: Collection[str], wording: Wording) -> Case:
    order = list(case.texts)
    texts = {
        name: wording.made(order.index(name), text) if name in names and text.words is not None else text
        for name, text in case.texts.items()
    }
    return replace(case, texts=texts)


async def joined(case: Case, still: Attempt, wording: Wording) -> Case:
    """Fewer fillers that take as many pages: one for all, then neighbours two at a time."""
    fillers = [step for step in case.steps if step.index != case.failing and _filler_text(case, step) is not None]
    ahead = list(takewhile(lambda step: step.index != case.failing, case.steps))
    leading = [step for step in fillers if step in ahead]
    if len(leading) < 2:
        return case
    for proposal in _all_in_one(case, leading, wording):
        if (kept := await still(proposal)) is not None:
            return kept
    return await _pairwise(case, still, leading, wording)


def _filler_text(case: Case, step: Step) -> str | None:
    """The one generated text that all of the step's requests send; None where there is none, or more."""
    names = {name for request in step.requests for name in pieces(request.body)}
    made = [name for name in names if case.texts[name].words is None]
    return made[0] if len(names) == len(made) == 1 else None


def _all_in_one(case: Case, fillers: Sequence[Step], wording: Wording) -> Iterator[Case]:
    """One longer prompt; one prompt with as many answers; one batch of prompts."""
    sizes = [case.texts[_filler_text(case, step) or ""].units for step in fillers]
    first, others = fillers[0], [step.index for step in fillers[1:]]
    if wording.longest is None or sum(sizes) <= wording.longest:
        yield _longer(without_steps(case, others), first, sum(sizes))
    if len(fillers) <= _MOST_CHOICES:
        once = _only_send(without_steps(case, others), first)
        yield _asking(once, first, {"n": len(fillers)}, max(sizes))
    yield _batch(case, fillers)


def _longer(case: Case, step: Step, units: int) -> Case:
    name = _filler_text(case, step) or ""
    return replace(case, texts={**case.texts, name: replace(case.texts[name], units=units)})


def _only_send(case: Case, step: Step) -> Case:
    steps = (replace(one, requests=one.requests[:1]) if one.index == step.index else one for one in case.steps)
    return replace(case, steps=tuple(steps))


def _asking(case: Case, step: Step, more: Mapping[str, Any], units: int) -> Case:
    ids = {request.id for request in step.requests}
    changed = case.with_requests(lambda r: replace(r, body={**r.body, **more}) if r.id in ids else r)
    return _longer(changed, step, units)


def _batch(case: Case, fillers: Sequence[Step]) -> Case:
    """The fillers' texts as one request with a list of prompts, which the completions endpoint takes."""
    names = [_filler_text(case, step) or "" for step in fillers]
    first = fillers[0].requests[0]
    body = {key: value for key, value in first.body.items() if key in ("model", "max_tokens", "temperature")}
    request = replace(
        first, endpoint="/v1/completions", body={**body, "prompt": [Piece(name=name) for name in names]}, tokens=None
    )
    one = replace(fillers[0], requests=(request,))
    gone = {step.index for step in fillers[1:]}
    kept = (one if step.index == one.index else step for step in case.steps if step.index not in gone)
    return replace(case, steps=tuple(kept))


async def _pairwise(case: Case, still: Attempt, fillers: Sequence[Step], wording: Wording) -> Case:
    """Neighbours joined into one longer prompt, as long as that fails; the first that cannot is left alone."""
    place = 0
    # Invariant: `case` fails, and its fillers before `place` were seen to be joined with no neighbour.
    while place + 1 < len(fillers):
        first, second = fillers[place], fillers[place + 1]
        units = sum(case.texts[_filler_text(case, step) or ""].units for step in (first, second))
        fits = wording.longest is None or units <= wording.longest
        kept = await still(_longer(without_steps(case, [second.index]), first, units)) if fits else None
        if kept is None:
            place += 1
        else:
            case = kept
        here = {step.index for step in case.steps}
        fillers = [step for step in fillers if step.index in here and (kept is None or step.index != second.index)]
    return case
