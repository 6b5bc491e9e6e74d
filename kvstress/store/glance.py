"""The timings of a run out of its tables: a tenth of the time that its events take to decode.

Tables are views that may be deleted; whoever needs them first asks whether they are there. Only what the tables hold
can be had this way: single gaps between chunks are in the events alone.
"""

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import Any

import msgspec

from kvstress.core.errors import CannotJudgeError
from kvstress.store import disk
from kvstress.store.reading import EVENTS

REQUESTS, STEPS, SAMPLES, VERDICT = "requests.csv", "prompts.csv", "metrics.csv", "verdict.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Timed:
    """A completed request of a step: seconds, and tokens generated; None: not observed."""

    step: int
    phase: str
    e2e: float | None
    ttft: float | None
    tpot: float | None
    tokens: int | None


def has_tables(run: Path) -> bool:
    """Whether all that is read here is there, and no older than the events it was made from."""
    made = [run / name for name in (REQUESTS, STEPS, SAMPLES, VERDICT)]
    events = run / EVENTS
    return all(file.is_file() for file in made) and (run / VERDICT).stat().st_mtime >= events.stat().st_mtime


def verdict(run: Path) -> dict[str, Any]:
    """verdict.json. Raises CannotJudgeError when it is not one."""
    with disk.reading(run / VERDICT):
        content = (run / VERDICT).read_bytes()
    try:
        found = msgspec.json.decode(content)
    except msgspec.DecodeError as problem:
        raise CannotJudgeError(
            f"{run / VERDICT} is damaged: {problem}; `kvstress judge {run}` makes it anew"
        ) from problem
    if not isinstance(found, dict) or "verdict" not in found:
        raise CannotJudgeError(f"{run / VERDICT} is no verdict; `kvstress judge {run}` makes it anew")
    return found


def completed(run: Path) -> Iterator[Timed]:
    """Completed requests of steps, in the order their answers ended."""
    names = ("origin", "outcome", "step", "phase", "e2e_s", "ttft_s", "tpot_s", "completion_tokens")
    for origin, outcome, step, phase, *numbers in _columns(run / REQUESTS, names):
        if origin == "step" and outcome == "completed" and step:
            e2e, ttft, tpot, tokens = (float(number) if number else None for number in numbers)
            yield Timed(
                step=int(step),
                phase=phase,
                e2e=e2e,
                ttft=ttft,
                tpot=tpot,
                tokens=None if tokens is None else int(tokens),
            )


def step_seconds(run: Path) -> Iterator[tuple[int, float]]:
    """How long each step took."""
    for step, seconds in _columns(run / STEPS, ("i", "seconds")):
        if step and seconds:
            yield int(step), float(seconds)


def capacity(run: Path) -> float | None:
    """The largest capacity of the KV pool that a sample showed, in tokens."""
    return max((float(cell) for (cell,) in _columns(run / SAMPLES, ("kv_capacity",)) if cell), default=None)


def unread_metrics(run: Path) -> tuple[int, int, str]:
    """How many of how many scrapes could not be read, and what the last of those said."""
    problems = [said for (said,) in _columns(run / SAMPLES, ("problem",))] if (run / SAMPLES).is_file() else []
    unread = [said for said in problems if said]
    return len(unread), len(problems), unread[-1] if unread else ""


def _columns(path: Path, names: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    with disk.reading(path), path.open(encoding="utf-8", newline="") as file:
        rows = csv.reader(file)
        heads = next(rows, [])
        if missing := [name for name in names if name not in heads]:
            raise CannotJudgeError(f"{path} has no column {missing[0]}; `kvstress judge` on the run makes it anew")
        places = [heads.index(name) for name in names]
        picked, last = itemgetter(*places, places[0]), max(places)
        for row in rows:
            if len(row) > last:
                # One place more than asked for, because a getter of one gives no tuple.
                yield picked(row)[:-1]
