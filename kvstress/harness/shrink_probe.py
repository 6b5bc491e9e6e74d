"""One probe of a case: a fresh server, the case, and whether it failed the same way; within the bounds that were set.

It is a run like any other and leaves a run directory. Only its pages are not made: nobody reads a hundred of them, and
`kvstress report` makes them of any that somebody wants to read.
"""

import subprocess
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import anyio

from kvstress.core.case import Case
from kvstress.core.errors import CannotJudgeError, Interrupted
from kvstress.core.events import StepStarted
from kvstress.core.repro import Facts
from kvstress.core.verdict import Finding, Judgement, Verdict
from kvstress.harness import shrink_store
from kvstress.harness.options import RunOptions
from kvstress.harness.replayed import prepared
from kvstress.harness.run import View, carry_out
from kvstress.harness.target import answers
from kvstress.launch.command import filled, partly, split
from kvstress.search.keeper import Shown, Shows
from kvstress.search.shrink import Spent
from kvstress.store.rundir import read_events

if TYPE_CHECKING:
    from kvstress.harness.shrink import Search

_RESET_SECONDS, _POLL_SECONDS = 300.0, 0.25
_DEAD_LAUNCHES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """A probe as it is stored: the case's digest and its size in words, and what it showed."""

    digest: str
    size: str
    shows: Shows
    sent: int
    at: int | None
    why: str
    run: str
    seconds: float
    cut: str = ""
    signature: str = ""
    what: str = ""

    def shown(self) -> Shown:
        """As the search sees it."""
        return Shown(
            shows=self.shows,
            sent=self.sent,
            at=self.at,
            why=self.why,
            run=self.run,
            seconds=self.seconds,
            signature=self.signature,
            what=self.what,
        )


class Prober:
    """Answers from what is stored first; raises Spent when a bound is reached or the server does not start any more."""

    def __init__(self, search: "Search", *, view: View, tell: Callable[[str], None]) -> None:
        self._search = search
        self._view = view
        self._tell = tell
        self._left = list(search.known)
        self.made = list(search.known)
        self.launches = len(search.known)
        self.stopped = ""
        self.last = ""
        self._dead = 0
        failure, case = search.found.failure, search.case
        self.signatures = set(failure.signatures)
        at = next((at for at, step in enumerate(case.steps) if step.index == case.failing), None)
        self._started = {case.value}
        self._places = {case.digest(): {_place(failure.oracle, at, failure.phase)} - {""}}

    async def __call__(self, case: Case) -> Shown:
        digest = case.digest()
        stored = next((one for one in self._left if one.digest == digest), None)
        if stored is not None:
            self._left.remove(stored)
            self.last = stored.why
            return self._learnt(case, digest, stored.shown())
        self._bounded()
        shown = self._learnt(case, digest, await self._made(case, f"{self.launches + 1:04d}"))
        self.launches += 1
        cut = case.until(shown.sent).digest() if shown.shows is Shows.SAME else ""
        self.made.append(_stored(case, digest, shown, cut))
        shrink_store.write(self._search, self.made)
        self.last = shown.why
        value = self._search.value(case)
        where = f", {self._search.asked.knob} {value}" if value else ""
        self._tell(f"  probe {self.launches}: {case.size()}{where}: {_words(shown)} ({shown.seconds:.1f} s)")
        self._count_dead(shown)
        return shown

    def _learnt(self, case: Case, digest: str, shown: Shown) -> Shown:
        """The same traffic that fails at the same request of it fails the same way, whatever the server says.

        Engines die while several of their parts hold a request, and which of them answers differs from time to time.
        """
        if shown.shows is Shows.OTHER and shown.what and shown.what in self._places.get(digest, ()):
            self._tell(f"  the same requests, sent again, failed at the same place in other words: {shown.why[:120]}")
            shown = replace(shown, shows=Shows.SAME)
        if shown.signature or shown.shows is Shows.PASSED:
            self._started.add(case.value)
        if shown.shows is Shows.SAME:
            self.signatures.update(filter(None, [shown.signature]))
            for name in (digest, case.until(shown.sent).digest()):
                self._places.setdefault(name, set()).update(filter(None, [shown.what]))
        return shown

    def _bounded(self) -> None:
        asked = self._search.asked
        spent = sum(one.seconds for one in self.made)
        if self.launches >= asked.launches:
            self.stopped = f"the bound of {asked.launches} launches was reached"
        elif asked.seconds is not None and spent >= asked.seconds:
            self.stopped = "the bound on time was reached"
        if self.stopped:
            raise Spent(self.stopped)

    def _count_dead(self, shown: Shown) -> None:
        self._dead = self._dead + 1 if shown.shows is Shows.UNJUDGED else 0
        if self._dead >= _DEAD_LAUNCHES:
            self.stopped = f"{_DEAD_LAUNCHES} probes in a row could not be judged: {shown.why}"
            raise Spent(self.stopped)

    async def _made(self, case: Case, name: str) -> Shown:
        search = self._search
        path = search.folder / "probes" / name
        began = time.perf_counter()
        options = at_value(search, case)
        try:
            if search.asked.reset:
                await fresh(search.asked.reset, options)
            shown = await probed(case, search.facts, self.signatures, options, path, view=self._view)
        except CannotJudgeError as problem:
            # With a smaller pool a refusal to start is an answer; with one that a server started with it is none.
            smaller = search.grid is not None and case.value not in self._started
            shown = Shown(shows=Shows.OTHER if smaller else Shows.UNJUDGED, why=str(problem))
        return replace(shown, run=name, seconds=round(time.perf_counter() - began, 3))


def _stored(case: Case, digest: str, shown: Shown, cut: str) -> Stored:
    return Stored(
        digest=digest,
        size=str(case.size()),
        shows=shown.shows,
        sent=shown.sent,
        at=shown.at,
        why=shown.why,
        run=shown.run,
        seconds=shown.seconds,
        cut=cut,
        signature=shown.signature,
        what=shown.what,
    )


def _place(oracle: str, at: int | None, phase: str | None) -> str:
    """What failed where in a case; "" for what failed outside its steps, as many things can."""
    return "" if at is None else f"{oracle} {at} {phase or ''}".rstrip()


def _words(shown: Shown) -> str:
    if shown.shows is Shows.SAME:
        return "same failure" if shown.at is None else f"same failure at prompt {shown.at}"
    return shown.shows.value if shown.shows is Shows.PASSED else f"{shown.shows.value}: {shown.why[:120]}"


def at_value(search: "Search", case: Case) -> RunOptions:
    """The run's options with the knob at the case's value."""
    options, grid, knob = search.asked.options, search.grid, search.asked.knob
    if grid is None or knob is None or case.value is None:
        return options
    value = {knob: grid.text(case.value)}
    how = options.launching
    env = {name: filled(text, value) for name, text in how.env.items()}
    return replace(options, launch=partly(options.launch or "", value), launching=replace(how, env=env))


async def probed(
    case: Case,
    facts: Facts,
    signatures: Collection[str],
    options: RunOptions,
    path: Path,
    *,
    view: View,
    pages: bool = False,
) -> Shown:
    """Send `case` once and say what that showed: the failure with one of `signatures`, another, or none.

    Raises Interrupted; CannotJudgeError when no server came.
    """
    run = prepared(case, facts, options, path, pages=pages, command=f"kvstress replay {path.parent}")
    result = await carry_out(run, view)
    if result.exit_code == Interrupted.exit_code:
        raise Interrupted("interrupted: the same command goes on from the probes that are stored")
    return _shown(result.judgement, signatures, path, len(case.steps))


def _shown(judgement: Judgement, signatures: Collection[str], path: Path, steps: int) -> Shown:
    failed = [finding for finding in judgement.findings if finding.verdict is Verdict.FAIL]
    if not failed:
        judged = judgement.verdict is not Verdict.INCONCLUSIVE or judgement.steps == steps
        return Shown(shows=Shows.PASSED if judged else Shows.UNJUDGED, sent=steps, why=judgement.why)
    first: Finding = failed[0]
    shows = Shows.SAME if first.signature in signatures else Shows.OTHER
    begun = {event.step for event in read_events(path) if isinstance(event, StepStarted)}
    at = first.step if first.step in begun else None
    return Shown(
        shows=shows,
        sent=len(begun) if at is not None else steps,
        at=at,
        why=first.summary,
        signature=first.signature,
        what=_place(first.oracle, at, first.phase),
    )


async def fresh(command: str, options: RunOptions) -> None:
    """Run the command that makes the server fresh, and wait until it answers."""
    try:
        with anyio.fail_after(_RESET_SECONDS):
            done = await anyio.run_process(
                split(command),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                check=False,
            )
    except OSError as problem:
        # A TimeoutError is one too, and says nothing of its own.
        why = problem.strerror or "it did not end in time"
        raise CannotJudgeError(f"--reset {split(command)[0]} did not work: {why}") from problem
    if done.returncode:
        raise CannotJudgeError(f"--reset {split(command)[0]} ended with exit code {done.returncode}")
    await answering(options)


async def answering(options: RunOptions) -> None:
    """Wait until the server at a URL answers a short request, as a launched one is waited for."""
    for _ in range(max(1, int(options.ready_timeout / _POLL_SECONDS))):
        if await answers(options.server or "", options, time.perf_counter):
            return
        await anyio.sleep(_POLL_SECONDS)
    raise CannotJudgeError(f"the server answered no request within {options.ready_timeout:.0f} s")
