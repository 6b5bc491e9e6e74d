"""Killing a named process below one that we started, to see what its fall looks like from outside."""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path


def descendants(pid: int) -> Iterator[int]:
    """Ids of all processes below `pid`, as /proc has them now."""
    parents: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            # The name, in parentheses, may hold spaces; the parent's id is the second word after it.
            after = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        parents.setdefault(int(after[1]), []).append(int(stat.parent.name))
    waiting = [pid]
    while waiting:
        children = parents.get(waiting.pop(), [])
        yield from children
        waiting += children


def kill_below(pid: int, title: str) -> bool:
    """SIGKILL the first process below `pid` whose command line holds `title`; was there one?"""
    for child in descendants(pid):
        try:
            shown = Path(f"/proc/{child}/cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
        except OSError:
            continue
        if title in shown:
            os.kill(child, signal.SIGKILL)
            return True
    return False


def wait_for(path: Path, words: bytes, seconds: float) -> bool:
    """Whether `words` came to stand in the file within `seconds`."""
    for _ in range(int(seconds / 0.1)):
        if path.exists() and words in path.read_bytes():
            return True
        time.sleep(0.1)
    return False
