"""Terminals and logs to print on, and a terminal's screen read back."""

import io
import os
import pty
import select
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console


class Pipe(io.TextIOWrapper):
    """A log: bytes in `encoding`, strict, as a CI system's pipe is."""

    def __init__(self, encoding: str = "utf-8") -> None:
        self.bytes = io.BytesIO()
        super().__init__(self.bytes, encoding=encoding, errors="strict", newline="")

    @property
    def text(self) -> str:
        """What was written."""
        self.flush()
        return self.bytes.getvalue().decode(self.encoding)


class Screen:
    """The far side of a pseudo-terminal. Nothing is interpreted: the bytes are the evidence."""

    def __init__(self, master: int) -> None:
        self.master, self.seen = master, b""

    def drain(self) -> str:
        """All that has been written so far."""
        while select.select([self.master], [], [], 0.05)[0]:
            try:
                got = os.read(self.master, 65536)
            except OSError:
                break
            if not got:
                break
            self.seen += got
        return self.seen.decode("utf-8", "replace")


@contextmanager
def terminal(width: int = 80, encoding: str = "utf-8") -> Iterator[tuple[Console, Screen]]:
    """A console on a pseudo-terminal of `width` columns, closed afterwards."""
    master, slave = pty.openpty()
    with open(slave, "w", encoding=encoding, errors="strict") as file:  # noqa: PTH123
        try:
            yield (
                Console(file=file, width=width, height=20, force_terminal=True, _environ={"TERM": "xterm"}),
                Screen(master),
            )
        finally:
            os.close(master)
