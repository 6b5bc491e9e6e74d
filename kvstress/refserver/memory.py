"""Granting, lending and releasing pages, and where each repair of the seed bug takes effect.

The pool knows what is free, the cache what may be evicted, the ranks hold the bytes; only here do the three meet. With
`Fix.NONE` no byte is ever cleared after start, which is the bug.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from kvstress.refserver.geometry import PAGE_TOKENS, Geometry
from kvstress.refserver.pool import PagePool
from kvstress.refserver.prefix_cache import Checkpoint, PrefixCache
from kvstress.refserver.ranks import Ranks


class Fix(Enum):
    """Repairs of the stale alias bytes."""

    NONE = "none"
    ZERO_ON_RELEASE = "zero-on-release"
    ZERO_ON_RELEASE_RANK0 = "zero-on-release:rank0"
    CLEAR_DEAD_TAIL = "clear-dead-tail"
    INERT_MASK = "inert-mask"


@dataclass(slots=True, kw_only=True)
class Counters:
    """What only memory can count."""

    evictions: int = 0
    evicted_tokens: int = 0
    alias_pages_released: int = 0


class KvMemory:
    """All KV memory of the server: pages, snapshot rows, cached prompts."""

    def __init__(self, geometry: Geometry, ranks: Ranks, fix: Fix, dedicated: range = range(0)) -> None:
        self.geometry = geometry
        self.ranks = ranks
        self.fix = fix
        self.pool = PagePool(geometry, dedicated)
        self.cache = PrefixCache(geometry)
        self.counters = Counters()
        # Alias pages released since the audit last looked.
        self.just_released: list[int] = []

    def grant(self, count: int) -> list[int] | None:
        """The `count` lowest free pages. None: not now; what could be evicted for it has been, see `could_grant`."""
        pages = self.pool.take(count)
        while pages is None and self.pool.free_pages < count and self.evict_oldest():
            pass
        return pages

    def could_grant(self, count: int) -> bool:
        """Will `count` pages be free after the next fence?"""
        return self.pool.free_pages >= count

    def clear_dead(self, page: int, first_dead: int) -> None:
        """Repair `clear-dead-tail`: called by whoever hands a request a page it will not fill at once."""
        if self.fix is Fix.CLEAR_DEAD_TAIL and first_dead < PAGE_TOKENS:
            self.ranks.call("clear", [page], first_dead)

    def take_slot(self) -> int | None:
        """Lend the pages of an open slot. None: not now; see `could_take_slot`."""
        slot = self.pool.open_slot()
        if slot is not None:
            self.pool.lend(slot)
        elif not self.pool.retirement:
            self.evict_oldest()
        return slot

    def could_take_slot(self) -> bool:
        """May a slot open by waiting for a fence or evicting more?"""
        return self.geometry.slots > 0 and (bool(self.pool.retirement) or self.cache.oldest_unused() is not None)

    def release_slots(self, slots: list[int]) -> None:
        """End snapshots. Their bytes stay where they are, unless the repair says otherwise."""
        for slot in slots:
            released = self.pool.give_back(slot)
            self.counters.alias_pages_released += len(released)
            self.just_released += released
            if self.fix is Fix.ZERO_ON_RELEASE and released:
                self.ranks.call("clear", released)
            elif self.fix is Fix.ZERO_ON_RELEASE_RANK0 and released:
                self.ranks.call_one(0, "clear", released)

    def keep(self, checkpoint: Checkpoint) -> None:
        """Cache a prompt; snapshots and pages that add nothing go back."""
        self.release_slots(self.cache.insert(checkpoint))

    def evict_oldest(self) -> bool:
        """Drop the least recently used checkpoint nobody reads. False when there is none."""
        oldest = self.cache.oldest_unused()
        if oldest is None:
            return False
        self.counters.evictions += 1
        self.counters.evicted_tokens += oldest.tokens.size
        self.drop(oldest)
        return True

    def drop_all(self) -> int:
        """Drop every checkpoint nobody reads; how many there were."""
        unused = [checkpoint for checkpoint in self.cache.checkpoints if checkpoint.pins == 0]
        for checkpoint in unused:
            self.drop(checkpoint)
        return len(unused)

    def drop(self, checkpoint: Checkpoint) -> None:
        """Take a checkpoint out of the cache and let its pages and slots go."""
        self.pool.retire(self.cache.remove(checkpoint))
        self.release_slots(list(checkpoint.snapshots.values()))
