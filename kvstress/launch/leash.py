"""kvstress' end of the supervisor's pipes: closing one of them is all it takes to end the server.

Nothing has to be sent for the server to end, which is the point: a killed kvstress closes its
pipes as well. The supervisor is a plain child process and not one of the event loop's, whose
transports kill their process when the loop closes; a server left running on purpose must
outlive it.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

import anyio

from kvstress.core.errors import CannotJudgeError
from kvstress.launch import supervisor

KILL_SECONDS = 10.0
_MARGIN_SECONDS = 10.0


class Leash:
    """One server under its supervisor. `pump` must run for the rest to learn anything."""

    def __init__(
        self, argv: Sequence[str], *, env: Mapping[str, str], cwd: Path | None, log: Path,
        stop: Sequence[str] | None, stop_seconds: float, grace: float,
    ) -> None:  # fmt: skip
        self.pid: int | None = None
        self.code: int | None = None
        self.failed: str | None = None
        self.stop_failed: str | None = None
        self.left: tuple[int, ...] | None = None
        self.started = anyio.Event()
        self.over = anyio.Event()
        self.closed = anyio.Event()
        self.ending = False
        self.held = False
        self.has_stop = stop is not None
        # Shielded: whoever cancels the run must still learn how the server ended.
        self._pumping = anyio.CancelScope(shield=True)
        self._patience = KILL_SECONDS + _MARGIN_SECONDS + grace + (stop_seconds + grace if stop else 0)
        self._process = _spawn(env, log)
        order = {
            "argv": list(argv),
            "cwd": str(cwd) if cwd else None,
            "stop": list(stop) if stop else None,
            "stop_seconds": stop_seconds,
            "grace": grace,
            "kill_seconds": KILL_SECONDS,
        }
        with suppress(BrokenPipeError):  # a supervisor that could not start says so by closing its pipe
            self._in().write(json.dumps(order).encode() + b"\n")
            self._in().flush()

    @property
    def supervisor(self) -> int:
        """The supervisor's process id: SIGTERM to it ends a held server and all its descendants."""
        return self._process.pid

    async def pump(self) -> None:
        """Take in reports until the supervisor ends, then set `closed`; `over` is set once the server itself ended."""
        with self._pumping:
            descriptor, pending = self._out().fileno(), b""
            os.set_blocking(descriptor, False)
            while piece := await _read(descriptor):
                *lines, pending = (pending + piece).split(b"\n")
                for line in lines:
                    self._take(json.loads(line))
        self._out().close()
        for event in (self.started, self.over, self.closed):
            event.set()

    async def end(self) -> tuple[int, ...]:
        """End the server and wait, bounded; the processes that could not be ended (normally none)."""
        if self.held:
            return ()
        self._let_go()
        with anyio.CancelScope(shield=True):
            with anyio.move_on_after(self._patience):
                await self.closed.wait()
            self._make_sure()
            await self._reaped()
        return self.left or ()

    async def _reaped(self) -> None:
        with anyio.move_on_after(_MARGIN_SECONDS):
            while True:
                if self._process.poll() is not None:
                    return
                await anyio.sleep(0.005)

    def hold(self) -> None:
        """Leave the server running when kvstress ends."""
        self.held = True
        with suppress(BrokenPipeError):
            self._in().write(b"hold\n")
            self._in().flush()
        self._let_go()
        self._pumping.cancel()
        # It is meant to outlive us: without a code its destructor would warn about just that.
        self._process.returncode = 0

    def _let_go(self) -> None:
        self.ending = True
        with suppress(BrokenPipeError):
            self._in().close()

    def _make_sure(self) -> None:
        if self.left is not None or self.failed is not None:
            return
        # The supervisor was itself killed, or is stuck: the kernel ends the server with it, and we its group.
        self._process.kill()
        if self.pid is not None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)

    def _take(self, report: dict[str, Any]) -> None:
        for name, value in report.items():
            if name == "started":
                self.pid = value
                self.started.set()
            elif name == "exited":
                self.code = value
                self.over.set()
            elif name == "left":
                self.left = tuple(value)
            elif name == "failed":
                self.failed = value
            elif name == "stop_failed":
                self.stop_failed = value

    def _in(self) -> IO[bytes]:
        assert self._process.stdin is not None
        return self._process.stdin

    def _out(self) -> IO[bytes]:
        assert self._process.stdout is not None
        return self._process.stdout


def _spawn(env: Mapping[str, str], log: Path) -> subprocess.Popen[bytes]:
    try:
        with log.open("ab") as stderr:
            return subprocess.Popen(
                [sys.executable, "-I", "-S", supervisor.__file__],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                env=dict(env),
                # Ctrl-C goes to the terminal's foreground group; kvstress decides when the server ends.
                start_new_session=True,
            )
    except OSError as problem:
        raise CannotJudgeError(f"cannot write the server's log {log}: {problem.strerror}") from problem


async def _read(descriptor: int) -> bytes:
    while True:
        await anyio.wait_readable(descriptor)
        with suppress(BlockingIOError):
            return os.read(descriptor, 65536)
