"""`kvstress replay`: is the failure of a reproducer still there on this server?

Four answers, because "it passed" is only worth something where it could have failed: on a larger pool a failure that
needs a full one does not come, and that must not read as a repair.
"""

import math
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path

from kvstress.core.errors import CannotJudgeError
from kvstress.core.repro import Reproducer
from kvstress.core.sample import Sample
from kvstress.harness.options import RunOptions
from kvstress.harness.shrink_probe import answering, fresh, probed
from kvstress.search.keeper import Shown, Shows
from kvstress.store import repro
from kvstress.store.rundir import read_events

_MISS, _MOST_TRIES = 0.05, 30
_LARGER = 1.01


class Answer(StrEnum):
    """The four answers."""

    FIXED = "FIXED"
    STILL_FAILS = "STILL FAILS"
    FAILS_DIFFERENTLY = "FAILS DIFFERENTLY"
    CANNOT_TELL = "CANNOT TELL"

    @property
    def exit_code(self) -> int:
        """As `run` exits: 0 no failure, 1 a failure, 125 could not judge."""
        return {Answer.FIXED: 0, Answer.CANNOT_TELL: 125}.get(self, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    """The answer, its reason in one sentence, and the directory of the last run."""

    answer: Answer
    why: str
    path: Path


def tries(found: Reproducer) -> int:
    """How often to try so that a failure as frequent as it was would be missed once in twenty at most."""
    rate = found.failed / found.probes if found.probes else 1.0
    if rate >= 1.0:
        return 1
    return min(_MOST_TRIES, math.ceil(math.log(_MISS) / math.log(1 - max(rate, 0.05))))


async def replay(path: Path, options: RunOptions, reset: str | None, tell: Callable[[str], None]) -> Replayed:
    """Replay the reproducer at `path`. UsageError when there is none; a server that never came is an answer."""
    found = repro.read(path)
    name = found.facts.run
    folder = options.out or Path("reports") / "replays" / f"{name}-{datetime.now(UTC):%Y%m%d-%H%M%S}"
    most = tries(found) if reset or options.launch or options.reference_args is not None else 1
    shown: Shown | None = None
    for number in range(1, most + 1):
        try:
            shown = await _once(found, options, reset, folder)
        except CannotJudgeError as problem:
            return Replayed(answer=Answer.CANNOT_TELL, why=str(problem), path=folder)
        tell(f"try {number} of at most {most}: {shown.shows.value}")
        if shown.shows in (Shows.SAME, Shows.OTHER):
            break
    assert shown is not None
    return _answered(found, shown, folder, most)


async def _once(found: Reproducer, options: RunOptions, reset: str | None, folder: Path) -> Shown:
    if reset is not None:
        await fresh(reset, options)
    elif options.server and options.reference_args is None:
        # A launched server has answered this request before it counts as ready; the case was cut on such servers.
        await answering(replace(options, ready_timeout=min(options.ready_timeout, 60.0)))
    view = lambda manifest: nullcontext(lambda event: None)  # noqa: E731
    return await probed(found.case, found.facts, found.failure.signatures, options, folder, view=view, pages=True)


def _answered(found: Reproducer, shown: Shown, folder: Path, most: int) -> Replayed:
    if shown.shows is Shows.SAME:
        return Replayed(answer=Answer.STILL_FAILS, why=shown.why, path=folder)
    if shown.shows is Shows.OTHER:
        was = found.failure.summary
        return Replayed(answer=Answer.FAILS_DIFFERENTLY, why=f"{shown.why} (it was: {was})", path=folder)
    if shown.shows is Shows.UNJUDGED:
        return Replayed(answer=Answer.CANNOT_TELL, why=shown.why, path=folder)
    before, now = found.facts.capacity, _capacity(folder)
    if before is not None and now is not None and now > _LARGER * before:
        why = f"it did not fail, but this pool holds {now:,.0f} tokens and the one that failed held {before:,.0f}"
        return Replayed(answer=Answer.CANNOT_TELL, why=why, path=folder)
    if found.failed < found.probes and most == 1:
        why = f"it did not fail once, but it failed only in {found.failed} of {found.probes} tries; repeat it"
        return Replayed(answer=Answer.CANNOT_TELL, why=why, path=folder)
    times = "" if most == 1 else f" in {most} tries"
    return Replayed(answer=Answer.FIXED, why=f"{found.case.size()}: no failure{times}", path=folder)


def _capacity(run: Path) -> float | None:
    values = [event.kv_capacity for event in read_events(run) if isinstance(event, Sample)]
    return next((value for value in reversed(values) if value is not None), None)
