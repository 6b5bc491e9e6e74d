"""The ranks of a tensor-parallel group, addressed as one device.

Every command goes to every rank in the same order. A command that reaches some ranks only is a bug by construction,
which is what the incomplete public repair of the report did: it cleared pages on the first rank.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kvstress.refserver.rank import Partial, Rank, RankConfig


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


def reduce(partials: list[Partial]) -> Partial:
    """The output of all ranks: attention heads side by side, recurrent shares summed."""
    return Partial(
        attention=np.hstack([partial.attention for partial in partials]),
        recurrent=np.sum([partial.recurrent for partial in partials], axis=0),
    )
