"""The ranks of a tensor-parallel group, addressed as one device.

Every command goes to every rank in the same order. A command that reaches some ranks only is a bug by construction,
which is what the incomplete public repair of the report did: it cleared pages on the first rank.
"""

from __future__ import annotations

import multiprocessing
import signal
from multiprocessing.connection import Connection
from typing import Any, Protocol

import numpy as np

from kvstress.refserver.rank import Partial, Rank, RankConfig


class Ranks(Protocol):
    """A group of ranks; `Rank` lists the commands."""

    def call(self, command: str, *arguments: Any) -> list[Any]:
        """Run `command` on every rank; results in rank order."""

    def call_one(self, rank: int, command: str, *arguments: Any) -> Any:
        """Run `command` on one rank."""

    def close(self) -> None:
        """End the ranks."""


class LocalRanks:
    """All ranks in this process."""

    def __init__(self, configs: list[RankConfig]) -> None:
        self.ranks = [Rank(config) for config in configs]

    def call(self, command: str, *arguments: Any) -> list[Any]:
        """Run `command` on every rank; results in rank order."""
        return [getattr(rank, command)(*arguments) for rank in self.ranks]

    def call_one(self, rank: int, command: str, *arguments: Any) -> Any:
        """Run `command` on one rank."""
        return getattr(self.ranks[rank], command)(*arguments)

    def close(self) -> None:
        """Nothing to end."""


class ProcessRanks:
    """Each rank in a process of its own, with its own bytes; commands and results travel over pipes."""

    def __init__(self, configs: list[RankConfig]) -> None:
        spawn = multiprocessing.get_context("spawn")
        self._pipes: list[Connection[Any, Any]] = []
        self._processes = []
        for config in configs:
            ours, theirs = spawn.Pipe()
            process = spawn.Process(target=_serve_rank, args=(config, theirs), name=f"rank {config.rank}", daemon=True)
            process.start()
            theirs.close()
            self._pipes.append(ours)
            self._processes.append(process)
        self.call("nonzero", [])

    def call(self, command: str, *arguments: Any) -> list[Any]:
        """Run `command` on every rank at once; results in rank order."""
        for pipe in self._pipes:
            pipe.send((command, arguments))
        return [pipe.recv() for pipe in self._pipes]

    def call_one(self, rank: int, command: str, *arguments: Any) -> Any:
        """Run `command` on one rank."""
        self._pipes[rank].send((command, arguments))
        return self._pipes[rank].recv()

    def close(self) -> None:
        """Close the pipes, which ends the processes."""
        for pipe in self._pipes:
            pipe.close()
        for process in self._processes:
            process.join(timeout=2)


def _serve_rank(config: RankConfig, pipe: Connection[Any, Any]) -> None:
    """A rank's process: obey commands until the other end is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    rank = Rank(config)
    while True:
        try:
            command, arguments = pipe.recv()
        except EOFError:
            return
        pipe.send(getattr(rank, command)(*arguments))


def reduce(partials: list[Partial]) -> Partial:
    """The output of all ranks: attention heads side by side, recurrent shares summed."""
    return Partial(
        attention=np.hstack([partial.attention for partial in partials]),
        recurrent=np.sum([partial.recurrent for partial in partials], axis=0),
    )
