"""The answer in sentences that never say more than was seen.

A boundary without its exposure would be read as "safe above", and it is not: a larger pool only fails
later. So every sentence carries how many steps were survived, and whether the pool was ever full in them.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby

from kvstress.core.words import cap
from kvstress.search.conclusion import Boundary, Conclusion, Status, at
from kvstress.search.flaky import tallies_at
from kvstress.search.outcome import Outcome, Seen, Showing
from kvstress.search.space import Space
from kvstress.search.steady import FAILS, UNJUDGED, marks

LATER = "a larger pool fills later, so with more steps the boundary may lie higher"


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """What the sentences are made from."""

    knob: str
    space: Space
    seen: Sequence[Seen]
    found: Conclusion
    q: float
    steps: int | None


def headline(story: Story) -> str:
    """The answer in a few words."""
    found, space = story.found, story.space
    if found.boundary is not None:
        return f"{space.show(found.boundary.failing)} fails, {space.show(found.boundary.passing)} passes"
    return found.status.value


def sentence(story: Story) -> str:
    """The whole answer: boundary or what stands in its place, with its exposure, then where it refuses to start."""
    told = {
        Status.BOUNDARY: _boundary,
        Status.FAILS_EVERYWHERE: _everywhere,
        Status.NO_FAILURE: _no_failure,
        Status.SELDOM: _seldom,
        Status.NOT_MONOTONE: _not_monotone,
        Status.NOTHING_STARTS: _nothing,
        Status.NOT_JUDGED: _nothing,
        Status.OPEN: _open,
    }[story.found.status](story)
    return told + _refusals(story) + _silent(story)


def exposure(story: Story) -> int | None:
    """Steps that the statement is about: those the passing value survived, else the fewest that any value did.

    Where every value failed it is the cap, before which each of them did.
    """
    found = story.found
    if found.status is Status.FAILS_EVERYWHERE:
        return story.steps
    indices = [found.boundary.passing] if found.boundary else [one.cell.index for one in story.seen]
    survived = [one.exposure for index in indices for one in at(story.seen, index) if one.passes and one.exposure]
    return min(survived, default=None)


def shown(outcome: Outcome) -> str:
    """One outcome: `FAILS at prompt 36, pool full at 27`."""
    if outcome.showing is Showing.REFUSED or outcome.showing is Showing.UNJUDGED:
        return f"{outcome.showing}: {cap(outcome.why, 600)}"
    if outcome.showing is Showing.NOT_EXERCISED:
        return f"NOT EXERCISED: {_steps(outcome.exposure)} without a failure, the pool never filled"
    place = f"at prompt {outcome.first_failure}" if outcome.first_failure is not None else "after its prompts"
    what = f"FAILS {place}" if outcome.fails else f"SURVIVED {_steps(outcome.exposure)}"
    return f"{what}, {_fill(outcome)}"


def _steps(count: int | None) -> str:
    return "1 step" if count == 1 else f"{count or 0} steps"


def _fill(outcome: Outcome) -> str:
    if outcome.pool_fill is None:
        return "the pool was not seen to fill"
    return f"pool full at {outcome.pool_fill}"


def _boundary(story: Story) -> str:
    boundary = story.found.boundary
    assert boundary is not None
    return _sure(story, boundary) if boundary.confidence is not None else _halved(story, boundary)


def _halved(story: Story, boundary: Boundary) -> str:
    space = story.space
    failing, passing = at(story.seen, boundary.failing)[0], at(story.seen, boundary.passing)[0]
    where = "below" if boundary.failing < boundary.passing else "above"
    words = (
        f"fails within {_steps(passing.exposure)} {where} {space.show(boundary.passing)}: "
        f"{space.show(boundary.failing)} {shown(failing)}; {space.show(boundary.passing)} {shown(passing)}"
    )
    if abs(boundary.failing - boundary.passing) > 1:
        words += "; what lies between the two was not judged"
    return f"{words} ({LATER})" if where == "below" else words


def _sure(story: Story, boundary: Boundary) -> str:
    space, sure = story.space, 100 * (boundary.confidence or 0)
    which = "largest" if boundary.failing < boundary.passing else "smallest"
    return (
        f"the {which} {story.knob} that fails within {_steps(exposure(story))} with probability {story.q:g} or more is "
        f"{space.show(boundary.failing)} or beyond it, but short of {space.show(boundary.passing)} "
        f"({sure:.1f} % sure, {len(story.seen)} probes; {LATER})"
    )


def _everywhere(story: Story) -> str:
    failing = [one.outcome for one in story.seen if one.outcome.fails]
    last = max((one.first_failure for one in failing if one.first_failure is not None), default=None)
    when = f", the latest at prompt {last}" if last is not None else ""
    within = f" within {_steps(story.steps)}" if story.steps else ""
    tried = _values(story, lambda one: one.fails)
    return f"fails at every limit tried{within} ({tried}){when}: no passing end, so no boundary"


def _no_failure(story: Story) -> str:
    parts = [f"no failure found within {_steps(exposure(story))}"]
    survived = _values(story, lambda one: one.showing is Showing.SURVIVED)
    idle = _values(story, lambda one: one.showing is Showing.NOT_EXERCISED)
    parts += [f"survived at {survived}"] if survived else []
    parts += [f"not exercised at {idle} (the pool never filled)"] if idle else []
    return "; ".join(parts)


def _seldom(story: Story) -> str:
    failing = sum(one.outcome.fails for one in story.seen)
    return (
        f"fails within {_steps(exposure(story))} less often than {story.q:g} at every limit tried: {failing} of "
        f"{len(story.seen)} probes failed, at {_values(story, lambda one: one.fails)}; no boundary"
    )


def _not_monotone(story: Story) -> str:
    space, found = story.space, story.found
    if found.uneven is not None:
        rates = [
            f"{failed} of {probes} failed at {space.show(index)}"
            for index in found.uneven
            for failed, probes in [tallies_at(story.seen, index)]
        ]
        return f"not monotone: {', but '.join(rates)} (2 ln of the likelihood ratio: {found.strength:.1f}); no boundary"
    judged = [(index, mark) for index, mark in marks(story.seen).items() if mark in (FAILS, "passes")]
    runs = [(mark, [index for index, _ in group]) for mark, group in groupby(judged, key=lambda pair: pair[1])]
    told = ", ".join(f"{mark} at {_span(space, indices)}" for mark, indices in runs)
    return f"not monotone: {told}; there is no single boundary within {_steps(exposure(story))}"


def _span(space: Space, indices: list[int]) -> str:
    if len(indices) == 1:
        return space.show(indices[0])
    return f"{len(indices)} values from {space.show(indices[0])} to {space.show(indices[-1])}"


def _nothing(story: Story) -> str:
    why = next((one.outcome.why for one in reversed(story.seen) if one.outcome.why), "nothing was probed")
    return f"{story.found.status.value}: {why}"


def _open(story: Story) -> str:
    return f"no boundary yet after {len(story.seen)} probes: what was seen leaves it open where it lies, or whether"


def _values(story: Story, wanted: Callable[[Outcome], bool]) -> str:
    indices = sorted({one.cell.index for one in story.seen if wanted(one.outcome)})
    return ", ".join(story.space.show(index) for index in indices)


def _refusals(story: Story) -> str:
    found, space = story.found, story.space
    refused = sorted({one.cell.index for one in story.seen if one.outcome.showing is Showing.REFUSED})
    words = ""
    if found.refused_below is not None:
        last = max(index for index in refused if index < found.refused_below)
        words += f"; refuses to start at {space.show(last)} and starts at {space.show(found.refused_below)}"
    if found.refused_above is not None:
        first = min(index for index in refused if index > found.refused_above)
        words += f"; starts at {space.show(found.refused_above)} and refuses to start at {space.show(first)}"
    return words


def _silent(story: Story) -> str:
    """Values that were only ever unjudged; where nothing was judged that is the sentence already."""
    silent = [index for index, mark in marks(story.seen).items() if mark == UNJUDGED]
    if not silent or story.found.status is Status.NOT_JUDGED:
        return ""
    return f"; could not be judged at {', '.join(map(story.space.show, silent))}"
