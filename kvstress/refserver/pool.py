"""Which pages are free, on their way to being free, or lent to snapshots.

Nobody keeps a table of owners: every holder (free list, retirement, snapshot slots, prefix cache, requests) has its own
list, and the audit checks that the lists do not meet. A table would be right by definition and prove nothing.

Order of reuse, fitted to the report: KV takes the lowest free pages, a snapshot the lowest slot whose pages can be had
without evicting anything, with slots that cost KV no page (dedicated ones) before all others.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from kvstress.refserver.geometry import PAGE_TOKENS, Geometry

Pages = NDArray[np.int32]


class PagePool:
    """Free list, retirement queue and alias counts over `geometry.pages` pages."""

    def __init__(self, geometry: Geometry, dedicated: range = range(0)) -> None:
        self.geometry = geometry
        self.free = np.ones(geometry.pages, bool)
        self.alias_count = np.zeros(geometry.pages, np.int16)
        self.retirement: deque[Pages] = deque()
        self.slot_used = [False] * geometry.slots
        self._slot_pages = [np.array(geometry.slot_pages(slot), np.int32) for slot in range(geometry.slots)]
        self.dedicated = dedicated
        self.reserved = np.zeros(geometry.pages, bool)
        for slot in dedicated:
            self.reserved[self._slot_pages[slot]] = True
        self.free &= ~self.reserved

    @property
    def kv_pages(self) -> int:
        """Pages that KV may ever use."""
        return int(self.geometry.pages - self.reserved.sum())

    @property
    def free_pages(self) -> int:
        """Pages KV could take now or, when retired, at the next step."""
        return int(self.free.sum()) + sum(pages.size for pages in self.retirement)

    @property
    def free_slots(self) -> int:
        """Slots that hold no snapshot, whether or not their pages are free."""
        return self.slot_used.count(False)

    def take(self, count: int) -> list[int] | None:
        """The `count` lowest free pages, or None when there are not so many."""
        lowest = np.flatnonzero(self.free)[:count]
        if lowest.size < count:
            return None
        self.free[lowest] = False
        return [int(page) for page in lowest]

    def retire(self, pages: Iterable[int]) -> None:
        """Let go of pages; they are free after the fence of this step."""
        retired = np.array(list(pages), np.int32)
        if retired.size:
            self.retirement.append(retired)

    def pass_fence(self) -> None:
        """The step that last used the retired pages has ended: they join the free list."""
        while self.retirement:
            self.free[self.retirement.popleft()] = True

    def open_slot(self) -> int | None:
        """The slot a new snapshot gets without eviction: dedicated slots first, then the lowest."""
        return next(filter(self.slot_is_open, (*self.dedicated, *range(self.geometry.slots))), None)

    def slot_is_open(self, slot: int) -> bool:
        """Is the slot empty, and each of its pages free, reserved or lent to a neighbour?"""
        pages = self._slot_pages[slot]
        lendable = self.free[pages] | self.reserved[pages] | (self.alias_count[pages] > 0)
        return not self.slot_used[slot] and bool(lendable.all())

    def lend(self, slot: int) -> None:
        """Give the pages of an open slot to its snapshot."""
        pages = self._slot_pages[slot]
        self.slot_used[slot] = True
        self.alias_count[pages] += 1
        self.free[pages] = False

    def give_back(self, slot: int) -> list[int]:
        """End a snapshot. Returns the pages whose alias count dropped to zero; they retire, bytes and all."""
        pages = self._slot_pages[slot]
        self.slot_used[slot] = False
        self.alias_count[pages] -= 1
        released = pages[self.alias_count[pages] == 0]
        self.retire(released[~self.reserved[released]])
        return [int(page) for page in released]


def pages_for(tokens: int) -> int:
    """Pages that hold `tokens` positions."""
    return -(-tokens // PAGE_TOKENS)
