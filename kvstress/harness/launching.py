"""How a server is started and ended beyond its command, and what is done while it is still up after a failure.

For people who debug: a failing server's state is worth more than any report of ours, and it is gone
once the server is stopped. So a command of theirs can look at it first, or it can be left running.
"""

import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import anyio

from kvstress.core.errors import UsageError
from kvstress.launch.command import fill, partly, placeholders
from kvstress.launch.presets import PRESETS
from kvstress.launch.server import Launched

ON_FAILURE_FILE, HELD_FILE = "on-failure.txt", "held.txt"
_ON_FAILURE_SECONDS = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Launching:
    """Of a launched server: `env` adds to ours, `stop` ends it (containers), `log_file` takes its output.

    `patterns` are looked for in its log; `on_failure` is run while a failed server is still up, `hold` leaves it up;
    after a refusal to start it is tried `attempts` times in all.
    """

    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    cwd: Path | None = None
    stop: str | None = None
    log_file: Path | None = None
    patterns: tuple[str, ...] = ()
    on_failure: str | None = None
    hold: bool = False
    attempts: int = 1


def template(launch: str | None, preset: str | None) -> str | None:
    """The launch command, typed or a preset's. UsageError for an unknown preset, or for both."""
    if preset is None:
        return launch
    if launch is not None:
        raise UsageError("both --launch and --preset given: a preset is a launch command")
    if preset not in PRESETS:
        raise UsageError(f"no preset named {preset!r}: there are {', '.join(sorted(PRESETS))}")
    return PRESETS[preset].command


def preset_form(preset: str | None) -> str | None:
    """How the preset's engine wants the knob written; None as it is typed."""
    return (PRESETS[preset].form or None) if preset in PRESETS else None


def with_values(command: str, values: Mapping[str, str]) -> str:
    """`command` with `values` filled in and the rest as it is; UsageError when it does not use one of them."""
    unused = sorted(values.keys() - placeholders(command))
    if unused:
        raise UsageError(f"the command never uses {{{unused[0]}}}: write it where the server takes that value")
    return partly(command, values)


async def after_failure(server: Launched, how: Launching, folder: Path) -> None:
    """Run the debugging command, its output going to on-failure.txt, and leave the server up if that was asked for."""
    if how.on_failure is not None:
        output = await _looked_at(how.on_failure, server, how)
        (folder / ON_FAILURE_FILE).write_bytes(output)
    if how.hold:
        server.hold()
        (folder / HELD_FILE).write_text(
            f"left running at {server.url} (process {server.pid}); end it with: kill {server.supervisor}\n",
            encoding="utf-8",
        )


async def _looked_at(command: str, server: Launched, how: Launching) -> bytes:
    values = {"port": str(server.port), "pid": str(server.pid), "url": server.url}
    argv, _ = fill(command, {}, values, optional=frozenset(values))
    try:
        with anyio.fail_after(_ON_FAILURE_SECONDS):
            done = await anyio.run_process(argv, cwd=how.cwd, stderr=subprocess.STDOUT, check=False)
    except OSError as problem:
        return f"cannot run {argv[0]}: {problem.strerror}\n".encode()
    except TimeoutError:
        return f"{argv[0]} did not end within {_ON_FAILURE_SECONDS:.0f} s and was ended\n".encode()
    return done.stdout + f"[exit code {done.returncode}]\n".encode()
