"""A dict that forgets its oldest entries, at the same cost however many it holds.

`del memory[next(iter(memory))]` on a plain dict looks for the oldest entry behind the gaps that all those before it
left: with 65,536 entries that took longer than everything else an oracle does with an answer. An OrderedDict
has no gaps, and needs twice the memory. So the gaps are closed now and then.
"""

from typing import Final, TypeVar

K = TypeVar("K")
V = TypeVar("V")

# So many gaps are passed over at most; closing them costs a pass over all entries.
_GAPS: Final = 2_048


class Recent(dict[K, V]):
    """Entries in the order in which they were first set; take one out and set it again to make it the newest."""

    __slots__ = ("_gaps",)

    def __init__(self) -> None:
        super().__init__()
        self._gaps = 0

    def trim(self, most: int) -> None:
        """Forget the oldest entries until there are `most`."""
        while len(self) > most:
            del self[next(iter(self))]
            self._gaps += 1
            if self._gaps >= _GAPS:
                self._close()

    def _close(self) -> None:
        entries = list(self.items())
        self.clear()
        self.update(entries)
        self._gaps = 0
