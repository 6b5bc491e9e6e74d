"""One probe: a fresh server at one value, the workload up to its first failure or its cap, the server stopped.

It is `kvstress run` and nothing else, so that every probe leaves a run directory that can be
opened, judged again and replayed. What the search needs of it is one of five words.
"""

import time
from dataclasses import dataclass, replace
from pathlib import Path

from kvstress.core.errors import CannotJudgeError, Interrupted
from kvstress.core.events import ServerChange, ServerEvent, StepStarted
from kvstress.core.verdict import Judgement, Verdict
from kvstress.harness.options import RunOptions
from kvstress.harness.run import Result, View, run
from kvstress.harness.stored import judge_run
from kvstress.launch.command import filled, partly
from kvstress.launch.start import RefusedToStart
from kvstress.search.outcome import Cell, Outcome, Showing
from kvstress.search.space import Space
from kvstress.store.rundir import read_events

LAUNCH_ATTEMPTS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Probing:
    """How probes are made: `options` of a run whose launch values still lack the `knob`, `folder` for their runs."""

    options: RunOptions
    knob: str
    space: Space
    folder: Path
    view: View


def run_name(space: Space, cell: Cell) -> str:
    """The name of a cell's run directory: `50G`, and `50G.2` for its second probe."""
    return space.show(cell.index) + (f".{cell.repeat}" if cell.repeat > 1 else "")


async def probe(probing: Probing, cell: Cell) -> Outcome:
    """Probe one cell. Raises Interrupted, and what `run` raises for reasons that no value of the knob would mend."""
    name = run_name(probing.space, cell)
    options = _at(probing, cell, probing.folder / name)
    began = time.perf_counter()
    try:
        found = classified(await run(options, probing.view))
    except RefusedToStart as refusal:
        # The refused launches are events of a run like any other; only its pages are still missing.
        judge_run(probing.folder / name)
        found = Outcome(showing=Showing.REFUSED, why=str(refusal), launches=LAUNCH_ATTEMPTS)
    except CannotJudgeError as problem:
        # A server that died before its first prompt says something about this value; a full disk does not.
        if not died_early(probing.folder / name):
            raise
        judge_run(probing.folder / name)
        found = Outcome(showing=Showing.UNJUDGED, why=str(problem))
    return replace(found, run=name, seconds=round(time.perf_counter() - began, 3))


def died_early(path: Path) -> bool:
    """Whether the run at `path` saw its server ready, and then not even a first step."""
    if not (path / "events.jsonl").exists():
        return False
    events = list(read_events(path))
    ready = any(isinstance(event, ServerEvent) and event.change is ServerChange.READY for event in events)
    return ready and not any(isinstance(event, StepStarted) for event in events)


def _at(probing: Probing, cell: Cell, path: Path) -> RunOptions:
    options = probing.options
    value = {probing.knob: probing.space.text(cell.index)}
    how = options.launching
    return replace(
        options,
        launch=partly(options.launch or "", value),
        launching=replace(
            how,
            env={name: filled(text, value) for name, text in how.env.items()},
            stop=partly(how.stop, value) if how.stop else None,
            attempts=LAUNCH_ATTEMPTS,
        ),
        out=path,
        overwrite=True,
    )


def classified(result: Result) -> Outcome:
    """A finished run in one of the five words. Raises Interrupted for one that the person stopped."""
    if result.exit_code == Interrupted.exit_code:
        raise Interrupted("interrupted: the same command goes on from the probes that are stored")
    return outcome(result.judgement)


def outcome(judgement: Judgement) -> Outcome:
    """A judgement as an outcome: coverage says which kind of survival it was, and voids none."""
    fill, first = judgement.pool_fill, judgement.first_failure
    return Outcome(
        showing=_showing(judgement),
        first_failure=first.step if first else None,
        exposure=judgement.steps,
        pool_fill=fill.step if fill else None,
        how=fill.how if fill else None,
        why=judgement.why,
    )


def _showing(judgement: Judgement) -> Showing:
    if judgement.verdict is Verdict.FAIL:
        return Showing.FAILS
    if judgement.verdict is Verdict.INCONCLUSIVE or not judgement.steps:
        return Showing.UNJUDGED
    # None is a server on which a full pool cannot be seen: it survived, and its fill is not known.
    unfilled = judgement.pool_fill is None and judgement.coverage.get("full") is False
    return Showing.NOT_EXERCISED if unfilled else Showing.SURVIVED
