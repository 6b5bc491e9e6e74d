"""bisect.json and the pages beside it: rewritten whole after each probe, and read back to go on.

What identifies a search is all that decides a probe's outcome (command, workload, seed, caps). The range,
the resolution and the budget are not part of it: a finer or wider search reuses what is there.
"""

import json
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from kvstress.core.errors import CannotJudgeError, UsageError
from kvstress.core.plan import Plan
from kvstress.harness.options import RunOptions, shown_launch
from kvstress.report.bisect import page
from kvstress.report.bisect_table import csv_text
from kvstress.search.conclusion import Conclusion
from kvstress.search.outcome import Cell, Outcome, Seen, Showing
from kvstress.search.space import Space
from kvstress.search.words import Story, exposure, headline, sentence, shown
from kvstress.store import disk

if TYPE_CHECKING:
    from kvstress.harness.bisect import Search

FILE, CSV, PAGE = "bisect.json", "bisect.csv", "bisect.html"
SCHEMA_VERSION = 1


class _Probe(msgspec.Struct):
    value: str
    repeat: int
    outcome: Showing
    first_failure: int | None
    exposure: int | None
    pool_fill: int | None
    how: str | None
    why: str
    run: str
    launches: int
    seconds: float


class _Stored(msgspec.Struct):
    schema_version: int
    identity: str
    command: str
    probes: list[_Probe]


def identity(options: RunOptions, knob: str, form: str | None, plan: Plan) -> str:
    """A digest of what decides a probe's outcome; it shows nothing of the command."""
    how = options.launching
    decides = [
        options.launch, knob, form, dict(how.env), str(how.cwd), how.stop, plan.digest(), dict(plan.parameters),
        options.model, options.timeout, options.ready_timeout, options.stream, options.dialect, options.keep_going,
    ]  # fmt: skip
    return sha256(json.dumps(decides, sort_keys=True, default=str).encode()).hexdigest()


def known(folder: Path, expected: str, space: Space) -> tuple[Seen, ...]:
    """The probes of an earlier call that lie on this grid. UsageError when another search is stored there."""
    path = folder / FILE
    if not path.exists():
        return ()
    try:
        stored = msgspec.json.decode(path.read_bytes(), type=_Stored)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError) as problem:
        raise CannotJudgeError(
            f"{path} cannot be read ({problem}): restore it, or begin again with --overwrite"
        ) from problem
    if stored.identity != expected:
        raise UsageError(
            f"{folder} holds another search (its command: {stored.command}): choose another --out, or replace it with "
            "--overwrite"
        )
    placed = [(space.find(one.value), one) for one in stored.probes]
    return tuple(_seen(index, one) for index, one in placed if index is not None)


def _seen(index: int, one: _Probe) -> Seen:
    outcome = Outcome(
        showing=one.outcome,
        first_failure=one.first_failure,
        exposure=one.exposure,
        pool_fill=one.pool_fill,
        how=one.how,
        why=one.why,
        run=one.run,
        launches=one.launches,
        seconds=one.seconds,
    )
    return Seen(cell=Cell(index=index, repeat=one.repeat), outcome=outcome)


def write(search: "Search", seen: Sequence[Seen]) -> Mapping[str, Any]:
    """Write bisect.json, then the table and the page made from it; its content."""
    found = content(search, seen, search.answer(seen))
    with disk.writing(search.folder, "create"):
        search.folder.mkdir(parents=True, exist_ok=True)
    disk.replace(search.folder / FILE, (json.dumps(found, indent=2, ensure_ascii=False) + "\n").encode())
    disk.replace(search.folder / CSV, csv_text(found).encode())
    disk.replace(search.folder / PAGE, page(found).encode("utf-8", "replace"))
    return found


def content(search: "Search", seen: Sequence[Seen], found: Conclusion) -> dict[str, Any]:
    """bisect.json as JSON values; values of the knob are as people see them (`61G`)."""
    space, options = search.space, search.options
    story = Story(knob=search.knob, space=space, seen=seen, found=found, q=options.q, steps=search.steps)
    boundary = found.boundary
    return {
        "schema_version": SCHEMA_VERSION,
        "knob": search.knob,
        "status": found.status.value,
        "headline": headline(story),
        "sentence": sentence(story),
        "exposure": exposure(story),
        "boundary": None
        if boundary is None
        else {
            "failing": space.show(boundary.failing),
            "passing": space.show(boundary.passing),
            "confidence": boundary.confidence,
        },
        "refused_below": _shown(space, found.refused_below),
        "refused_above": _shown(space, found.refused_above),
        "changes": [[space.show(index) for index in pair] for pair in found.changes],
        "uneven": None if found.uneven is None else [space.show(index) for index in found.uneven],
        "low": space.show(0),
        "high": space.show(space.count - 1),
        "resolution": float(space.resolution / space.scale),
        "unit": space.suffix,
        "repeats": options.repeats,
        "q": options.q,
        "workload": search.workload,
        "seed": options.run.seed,
        "max_steps": search.steps,
        "command": shown_launch(options.run.launch or ""),
        "identity": search.identity,
        "launches": sum(one.outcome.launches for one in seen),
        "probes": [_probe(space, one) for one in seen],
    }


def _shown(space: Space, index: int | None) -> str | None:
    return None if index is None else space.show(index)


def _probe(space: Space, one: Seen) -> dict[str, Any]:
    outcome = one.outcome
    return {
        "value": space.show(one.cell.index),
        "number": space.number(one.cell.index),
        "repeat": one.cell.repeat,
        "outcome": outcome.showing.value,
        "first_failure": outcome.first_failure,
        "exposure": outcome.exposure,
        "pool_fill": outcome.pool_fill,
        "how": outcome.how,
        "words": shown(outcome),
        "why": outcome.why,
        "run": outcome.run,
        "launches": outcome.launches,
        "seconds": outcome.seconds,
    }
