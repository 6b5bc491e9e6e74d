"""A process that outlives kvstress by a few seconds, to end the server that kvstress started.

A parent that is killed with -9 cannot clean up, and a server's workers survive their parent,
even in sessions of their own. So the server is started by this script, which holds a pipe
from kvstress: end of file means that kvstress is gone, however it went. As subreaper it inherits
every orphan below it, so that "all descendants" is a question the kernel answers. It runs
by path under `python -I -S`, within milliseconds, and therefore imports the standard library only.

Reads one JSON line {argv, cwd, stop, stop_seconds, grace, kill_seconds} from stdin, then `hold` or end of
file; writes JSON lines {started: pid}, {failed: words}, {exited: code}, {stop_failed: words} and {left: [pid, …]} to
stdout. Its stderr is the server's log.
"""

import ctypes
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_ENDING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_LOOK_SECONDS = 0.02


def descendants(root: int) -> dict[int, int]:
    """The living processes below `root`: pid → process group. Zombies are not alive; where there is no /proc, none."""
    below: dict[int, list[tuple[int, int, bool]]] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            stat = (entry / "stat").read_bytes()
        except OSError:
            continue
        # The second field is the command's name in parentheses, which may itself hold blanks and parentheses.
        state, parent, pgid = stat.rpartition(b")")[2].split()[:3]
        below.setdefault(int(parent), []).append((int(entry.name), int(pgid), state not in (b"Z", b"X")))
    found: dict[int, int] = {}
    queue = [root]
    while queue:
        for pid, group, alive in below.get(queue.pop(), []):
            queue.append(pid)
            if alive:
                found[pid] = group
    return found


class _Server:
    """The server process and all that came of it."""

    def __init__(self, order: dict[str, Any]) -> None:
        self.code: int | None = None
        self._order = order
        self._process = subprocess.Popen(
            order["argv"],
            cwd=order["cwd"],
            stdin=subprocess.DEVNULL,
            stdout=sys.stderr.fileno(),
            stderr=sys.stderr.fileno(),
            start_new_session=True,
            preexec_fn=_die_with_parent(),
        )
        _report(started=self._process.pid)

    def reap(self) -> None:
        """Collect whoever ended; report it when it was the server itself."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid == self._process.pid:
                self.code = self._process.returncode = os.waitstatus_to_exitcode(status)
                _report(exited=self.code)

    def end(self) -> None:
        """Stop command, then SIGTERM, then SIGKILL, each with its time; reports who is left."""
        if self._order["stop"]:
            self._run_stop_command()
            self._gone_within(self._order["grace"], None)
        if not self._gone_within(self._order["grace"], signal.SIGTERM):
            self._gone_within(self._order["kill_seconds"], signal.SIGKILL)
        _report(left=sorted(self._living()))

    def _run_stop_command(self) -> None:
        try:
            done = subprocess.run(
                self._order["stop"],
                cwd=self._order["cwd"],
                stdin=subprocess.DEVNULL,
                stdout=sys.stderr.fileno(),
                timeout=self._order["stop_seconds"],
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as problem:
            _report(stop_failed=str(problem))
        else:
            if done.returncode:
                _report(stop_failed=f"it exited with code {done.returncode}")

    def _gone_within(self, seconds: float, signum: int | None) -> bool:
        """Send `signum` to each process once, also to those born meanwhile, and wait; True when none is left."""
        deadline = time.monotonic() + seconds
        told: set[int] = set()
        while living := self._living():
            if signum is not None:
                if not told and self._process.pid in living.values():
                    # One signal to the group, not one to each member: many servers take a second one as "now!".
                    _send(os.killpg, self._process.pid, signum)
                    told.update(pid for pid, group in living.items() if group == self._process.pid)
                for pid in living.keys() - told:
                    _send(os.kill, pid, signum)
                told.update(living)
            if time.monotonic() > deadline:
                return False
            time.sleep(_LOOK_SECONDS)
        return True

    def _living(self) -> dict[int, int]:
        self.reap()
        return descendants(os.getpid())


def _send(kill: Callable[[int, int], None], target: int, signum: int) -> None:
    try:
        kill(target, signum)
    except (ProcessLookupError, PermissionError):
        return  # it is gone, or it is another user's: then it is reported as left


def _die_with_parent() -> Callable[[], None]:
    """For the child, before its exec: should this supervisor be killed too, the kernel kills the server."""
    libc, parent = ctypes.CDLL(None), os.getpid()

    def ask() -> None:
        if sys.platform == "linux":
            libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
            if os.getppid() != parent:
                os._exit(127)

    return ask


def _report(**words: Any) -> None:
    try:
        os.write(1, json.dumps(words).encode() + b"\n")
    except OSError:
        return  # kvstress is gone; nobody reads


def _read_order() -> dict[str, Any]:
    line = b""
    while not line.endswith(b"\n"):
        piece = os.read(0, 65536)
        if not piece:
            raise SystemExit(0)  # kvstress was killed before it said what to start
        line += piece
    order: dict[str, Any] = json.loads(line)
    return order


def _wakeups() -> int:
    """A descriptor that becomes readable, with the signal's number, at each signal that this process acts on."""
    readable, writable = os.pipe()
    os.set_blocking(writable, False)
    for signum in (signal.SIGCHLD, *_ENDING):
        signal.signal(signum, lambda *_: None)
    signal.set_wakeup_fd(writable, warn_on_full_buffer=False)
    return readable


def _watch(server: _Server, wakeups: int) -> None:
    """Return when the server is to be ended: kvstress let go, a signal came, or a held server ended by itself."""
    watched = [0, wakeups]
    while True:
        readable, _, _ = select.select(watched, [], [])
        if wakeups in readable and set(os.read(wakeups, 4096)) & set(_ENDING):
            return
        server.reap()
        if 0 in readable:
            if os.read(0, 4096) != b"hold\n":
                return
            watched = [wakeups]
        if watched == [wakeups] and server.code is not None:
            return


def main() -> None:
    """Start, watch and end one server."""
    wakeups = _wakeups()
    order = _read_order()
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    try:
        server = _Server(order)
    except (OSError, ValueError) as problem:
        _report(failed=str(problem))
        return
    _watch(server, wakeups)
    server.end()


if __name__ == "__main__":
    main()
