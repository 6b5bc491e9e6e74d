"""Clients and servers as processes of their own, each kept on a core of its own where there are two.

Sharing an interpreter would share its lock and its garbage; sharing a core would make the one's work the other's delay.
"""

import json
import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

CORES = sorted(os.sched_getaffinity(0))
CLIENT, SERVER = CORES[0], CORES[-1]
LONGEST = 300.0


def pinned(core: int, *command: str) -> list[str]:
    """`command` kept on `core`, where there is more than one."""
    return ["taskset", "-c", str(core), *command] if len(CORES) > 1 else [*command]


@contextmanager
def serving() -> Iterator[str]:
    """The streaming server; its URL. It ends when its standard input does, so it outlives nobody."""
    command = pinned(SERVER, sys.executable, "-m", "tests.bench.server")
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        yield f"http://127.0.0.1:{process.stdout.readline().strip()}"
        process.stdin.close()


def told(module: str, *arguments: object, anywhere: bool = False) -> dict[str, Any]:
    """The figures that `tests.bench.MODULE` prints as JSON on its last line, run on the clients' core or `anywhere`."""
    words = [sys.executable, "-m", f"tests.bench.{module}", *map(str, arguments)]
    command = words if anywhere else pinned(CLIENT, *words)
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=LONGEST, check=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def cpu_of(command: list[str], **more: Any) -> float:
    """CPU seconds of `command` and of all that it waited for."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        pinned(CLIENT, *command),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        timeout=LONGEST,
        check=True,
        **more,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
