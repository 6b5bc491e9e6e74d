"""Small real servers, and a look into the kernel's process table for what they leave behind."""

import os
import shlex
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio

from kvstress.core.events import Event, ServerChange, ServerEvent
from kvstress.launch.server import Launched, launched

HTTP = """
import http.server, os, subprocess, sys, threading, time
class Ok(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers(); self.wfile.write(b'ok')
def serve():
    http.server.ThreadingHTTPServer(('127.0.0.1', int(sys.argv[1])), Ok).serve_forever()
def wait_for(path):
    while not os.path.exists(path):
        time.sleep(0.02)
def once(path, act):
    threading.Thread(target=lambda: (wait_for(path), act()), daemon=True).start()
"""
# A worker that leaves its group and session, loses its parent, keeps the port open and does not listen to SIGTERM.
DAEMON = """
import os, signal, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        time.sleep(600)
    os._exit(0)
os.wait()
"""


def python(code: str, *arguments: str) -> str:
    """A command that runs `code`; placeholders go into `arguments`."""
    return " ".join([shlex.join([sys.executable, "-S", "-c", code]), *arguments])


SERVER = python(HTTP + "serve()", "{port}")


async def answers(url: str) -> bool:
    """True when GET / is answered with a 200."""
    host, port = url.removeprefix("http://").split(":")
    with anyio.move_on_after(2.0):
        try:
            async with await anyio.connect_tcp(host, int(port)) as stream:
                await stream.send(b"GET / HTTP/1.0\r\n\r\n")
                return b" 200 " in await stream.receive()
        except (OSError, anyio.EndOfStream, anyio.BrokenResourceError):
            return False
    return False


def marked(mark: str) -> list[int]:
    """The living processes that have `mark` in their environment."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            alive = (entry / "stat").read_bytes().rpartition(b")")[2].split()[0] not in (b"Z", b"X")
            if alive and mark.encode() in (entry / "environ").read_bytes():
                found.append(int(entry.name))
        except OSError:
            continue
    return [pid for pid in found if pid != os.getpid()]


def wait_until(true: Callable[[], bool], seconds: float = 60.0) -> bool:
    """Look until `true()`, at most `seconds`."""
    for _ in range(round(seconds / 0.02)):
        if true():
            return True
        time.sleep(0.02)
    return true()


@dataclass
class Bench:
    """One test's launches: their events, their log and the mark that all their processes carry."""

    folder: Path
    mark: str
    events: list[Event] = field(default_factory=list)

    @property
    def log(self) -> Path:
        return self.folder / "server.log"

    def launched(
        self, command: str, *, ready: Callable[[str], Awaitable[bool]] = answers, **how: Any
    ) -> AbstractAsyncContextManager[Launched]:
        env = {"KVSTRESS_TEST_MARK": self.mark, **how.pop("env", {})}
        how = {"emit": self.events.append, "log_path": self.log, "ready_timeout": 60.0, "grace": 5.0, **how}
        return launched(command, clock=time.perf_counter, ready=ready, env=env, **how)

    @property
    def go(self) -> Path:
        """The file whose appearance makes a waiting server act."""
        return self.folder / "go"

    def told(self, change: ServerChange) -> list[ServerEvent]:
        return [event for event in self.events if isinstance(event, ServerEvent) and event.change is change]

    async def event(self, change: ServerChange) -> ServerEvent:
        """The first event of that kind, waited for."""
        with anyio.fail_after(60):
            for _ in range(3000):
                if found := self.told(change):
                    return found[0]
                await anyio.sleep(0.02)
        raise AssertionError(f"no {change} event within a minute: {self.events}")
