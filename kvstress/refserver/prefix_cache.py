"""Which prompts can be resumed, where, and which of them goes first when pages are needed.

A hybrid model resumes only where its recurrent state was saved, so a cached prompt is KV pages plus one or two
snapshots at known positions. The index goes from (salt, length, hash of that many tokens) to the snapshot; the tokens
are compared as well, because a hash decides nothing here. Prompts that extend one another share full pages by count.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from kvstress.refserver.geometry import MAX_CONTEXT_TOKENS, Geometry
from kvstress.refserver.model import I32, U64

_Key = tuple[str, int, int]


@dataclass(slots=True, kw_only=True, eq=False)
class Checkpoint:
    """A cached prompt: its tokens, the pages of their KV, and `snapshots` from position to slot."""

    tokens: I32
    salt: str
    pages: list[int]
    snapshots: dict[int, int]
    pins: int = 0
    keys: list[_Key] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """Where a prompt can resume: `position` tokens of `checkpoint`, whose state is in `slot`."""

    checkpoint: Checkpoint
    position: int
    slot: int


@lru_cache(maxsize=1)
def _powers() -> U64:
    steps = np.full(MAX_CONTEXT_TOKENS + 1, 0x9E3779B97F4A7C15, np.uint64)
    return np.cumprod(steps, dtype=np.uint64)


def prefix_hashes(tokens: I32) -> U64:
    """Hash of every non-empty prefix, modulo 2^64: entry i covers tokens[: i + 1]."""
    return np.cumsum((tokens.astype(np.uint64) + np.uint64(1)) * _powers()[: tokens.size], dtype=np.uint64)


class PrefixCache:
    """Checkpoints in LRU order (a dict keeps insertion order)."""

    def __init__(self, geometry: Geometry) -> None:
        self.page_refs = np.zeros(geometry.pages, np.int32)
        self.checkpoints: dict[Checkpoint, None] = {}
        self._index: dict[_Key, tuple[Checkpoint, int]] = {}
        self._lengths: Counter[int] = Counter()

    @property
    def cached_pages(self) -> int:
        """Pages held by at least one checkpoint."""
        return int((self.page_refs > 0).sum())

    def lookup(self, tokens: I32, salt: str) -> Match | None:
        """The longest resumable prefix that leaves at least the last token to be computed."""
        hashes = prefix_hashes(tokens)
        for length in sorted((n for n in self._lengths if n < tokens.size), reverse=True):
            found = self._index.get((salt, length, int(hashes[length - 1])))
            if found is not None and np.array_equal(found[0].tokens[:length], tokens[:length]):
                return Match(checkpoint=found[0], position=length, slot=found[1])
        return None

    def touch(self, checkpoint: Checkpoint) -> None:
        """Make `checkpoint` the most recently used, if it is still cached."""
        if checkpoint in self.checkpoints:
            del self.checkpoints[checkpoint]
            self.checkpoints[checkpoint] = None

    def insert(self, checkpoint: Checkpoint) -> list[int]:
        """Add as most recently used. Returns slots that say what another checkpoint says already; they are not kept.

        A checkpoint left with no snapshot of its own is not added, and its `snapshots` is empty.
        """
        hashes = prefix_hashes(checkpoint.tokens)
        redundant = []
        for position, slot in list(checkpoint.snapshots.items()):
            key = (checkpoint.salt, position, int(hashes[position - 1]))
            if key in self._index:
                redundant.append(checkpoint.snapshots.pop(position))
            else:
                self._index[key] = (checkpoint, slot)
                self._lengths[position] += 1
                checkpoint.keys.append(key)
        if checkpoint.snapshots:
            self.page_refs[checkpoint.pages] += 1
            self.checkpoints[checkpoint] = None
        return redundant

    def remove(self, checkpoint: Checkpoint) -> list[int]:
        """Forget a checkpoint. Returns the pages no other checkpoint holds."""
        del self.checkpoints[checkpoint]
        for key in checkpoint.keys:
            del self._index[key]
            self._lengths[key[1]] -= 1
        self._lengths = +self._lengths
        pages = np.array(checkpoint.pages, np.int32)
        self.page_refs[pages] -= 1
        return [int(page) for page in pages[self.page_refs[pages] == 0]]

    def oldest_unused(self) -> Checkpoint | None:
        """The least recently used checkpoint that no request reads."""
        return next((found for found in self.checkpoints if found.pins == 0), None)
