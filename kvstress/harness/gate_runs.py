"""The runs that a gate makes itself: build the server, start it afresh for each run, drive the workload.

What keeps a server from being judged is told apart here, because `git bisect` must hear three different
things: a commit that does not build and a server that does not come up are the commit's (skip, or bad), a
command that cannot work at any commit is ours (stop).
"""

import subprocess
from dataclasses import dataclass, replace
from pathlib import Path

import anyio

from kvstress.core.errors import CannotJudgeError, Interrupted, UsageError
from kvstress.harness.options import RunOptions
from kvstress.harness.probe import died_early
from kvstress.harness.run import View, run
from kvstress.launch.command import split
from kvstress.launch.start import NeverStarted, RefusedToStart

# What a shell answers for a command that is not there or cannot be executed.
_NO_COMMAND = (126, 127)
_STDERR = 2


class BuildFailed(CannotJudgeError):  # noqa: N818 - a word for what happened to this commit
    """The build step ended with an error: this commit cannot be tested."""


class NeverCameUp(CannotJudgeError):  # noqa: N818 - a word for what happened to this commit
    """The server was not ready, or was gone again before its first prompt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Making:
    """How head runs are made: `options` of one, how many, into which folder, after which `build` command."""

    options: RunOptions
    count: int
    folder: Path
    build: str | None


async def make(making: Making, view: View) -> list[Path]:
    """Build, then make the runs; their directories. Raises BuildFailed, NeverCameUp, and what `run` raises."""
    if making.build is not None:
        await _built(making.build, making.options.launching.cwd)
    return [await _run(making, number, view) for number in range(1, making.count + 1)]


async def _built(command: str, cwd: Path | None) -> None:
    """Run the build step; all it prints goes to stderr, because stdout may be wanted as JSON."""
    argv = split(command)
    try:
        done = await anyio.run_process(argv, cwd=cwd, check=False, stdout=_STDERR, stderr=None)
    except OSError as problem:
        raise UsageError(f"--build: cannot run {argv[0]}: {problem.strerror}") from problem
    if done.returncode in _NO_COMMAND:
        raise UsageError(f"--build: {argv[0]} ended with {done.returncode}: there is no such command")
    if done.returncode:
        raise BuildFailed(f"the build failed: {argv[0]} ended with {done.returncode}")


async def _run(making: Making, number: int, view: View) -> Path:
    path = making.folder / f"run-{number}"
    options = replace(making.options, out=path, overwrite=True)
    try:
        result = await run(options, view)
    except (RefusedToStart, NeverStarted) as refusal:
        raise NeverCameUp(str(refusal)) from refusal
    except CannotJudgeError as problem:
        if options.launch is None or not died_early(path):
            raise
        raise NeverCameUp(str(problem)) from problem
    if result.exit_code == Interrupted.exit_code:
        raise Interrupted("interrupted: nothing was judged")
    return path


def head_commit(cwd: Path | None) -> str | None:
    """The commit that is checked out in `cwd`, None when git does not say."""
    command = ["git", "rev-parse", "--short=12", "HEAD"]
    try:
        done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() or None if done.returncode == 0 else None
