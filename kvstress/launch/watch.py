"""What a running server does besides answering: it ends, it logs something telling, it comes back as another process.

None of this can be seen on the wire with certainty. An engine that dies may exit with 0, and
one that is restarted by its own wrapper answers again as if nothing had happened, with an
empty cache.
"""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import anyio
from anyio import TASK_STATUS_IGNORED, to_thread
from anyio.abc import TaskStatus

from kvstress.core.errors import UsageError
from kvstress.core.events import ServerChange
from kvstress.launch.leash import Leash
from kvstress.launch.log import clean
from kvstress.launch.ports import listeners
from kvstress.launch.start import Launch, ending

LOG_EVENTS_CAP = 100
_LOG_SECONDS = 0.25
_PORT_SECONDS = 1.0
_PIECE_BYTES = 1 << 20
_LINE_BYTES = 1 << 16


def compiled(patterns: Sequence[str]) -> tuple[re.Pattern[str], ...]:
    """`patterns` ready for searching log lines; UsageError names the one that is no regular expression."""
    found = []
    for pattern in patterns:
        try:
            found.append(re.compile(pattern))
        except re.error as problem:
            raise UsageError(f"the log pattern {pattern!r} is no regular expression: {problem}") from problem
    return tuple(found)


async def for_exit(launch: Launch, leash: Leash) -> None:
    """Tell when the server ends although nobody asked it to; code 0 is an end like any other."""
    await leash.over.wait()
    if not leash.ending:
        launch.tell(ServerChange.EXITED, f"it {ending(leash.code)}; {launch.last_words()}", leash.code)


async def for_lines(launch: Launch, patterns: tuple[re.Pattern[str], ...]) -> None:
    """Tell each log line that one of `patterns` is found in, the first hundred of them."""
    left, lines = LOG_EVENTS_CAP, _Lines(launch.log, launch.log_start)
    while patterns:
        # In a thread: a server that logs megabytes must not delay the timestamps of its own answers.
        found = await to_thread.run_sync(lines.matching, patterns)
        for line in found[:left]:
            launch.tell(ServerChange.LOG, clean(line, launch.secrets))
        if len(found) > left:
            launch.tell(ServerChange.LOG, "more lines match; they are in the log only")
            return
        left -= len(found)
        await anyio.sleep(_LOG_SECONDS)


class _Lines:
    """Whole lines of a growing file, each once; a line without an end is cut at 64 KiB."""

    def __init__(self, path: Path, start: int) -> None:
        self._path = path
        self._at = start
        self._rest = b""

    def matching(self, patterns: tuple[re.Pattern[str], ...]) -> list[str]:
        """The new whole lines in which one of `patterns` is found."""
        return [line for line in self._more() if any(pattern.search(line) for pattern in patterns)]

    def _more(self) -> Iterator[str]:
        with self._path.open("rb") as log:
            log.seek(self._at)
            piece = log.read(_PIECE_BYTES)
        self._at += len(piece)
        *whole, self._rest = (self._rest + piece).split(b"\n")
        if len(self._rest) > _LINE_BYTES:
            whole, self._rest = [*whole, self._rest], b""
        for line in whole:
            yield line.decode("utf-8", "replace")


async def for_restart(launch: Launch, *, task_status: TaskStatus[None] = TASK_STATUS_IGNORED) -> None:
    """Tell when the port is listened on by a new socket: workers share or add sockets, a restart replaces them all."""
    known = await to_thread.run_sync(listeners, launch.port)
    task_status.started()
    while True:
        await anyio.sleep(_PORT_SECONDS)
        now = await to_thread.run_sync(listeners, launch.port)
        if known and now and not known & now:
            launch.tell(ServerChange.RESTARTED, f"port {launch.port} is listened on by a new socket")
        known = now or known
