"""How a memory limit becomes KV pages and snapshot slots.

The nominal sizes are those of the server in the bug report; the process holds every page and row at 1:256, so that
a 50 GiB pool takes 59 MiB here. A slot's row starts wherever an even division of the pool puts it, not at a page
boundary. That is why neighbouring slots share their edge pages, and why all slots together touch every page.

Fitted to the report: `RESERVED_BYTES`, `NOMINAL_PAGE_BYTES`, `NOMINAL_ROW_BYTES`, from "50 GiB gives 3,760 pages and
101 slots". Not fitted, and following from them: the prompt at which a pool of either size fills.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

MIB = 2**20
GIB = 2**30

SCALE = 256
PAGE_TOKENS = 128
NOMINAL_PAGE_BYTES = 4 * MIB
NOMINAL_ROW_BYTES = 148 * MIB
RESERVED_BYTES = 35 * GIB + 5 * GIB // 16
PAGE_BYTES = NOMINAL_PAGE_BYTES // SCALE
ROW_BYTES = NOMINAL_ROW_BYTES // SCALE
ROW_ALIGNMENT = 256
MINIMUM_PAGES = 22
LARGEST_LIMIT = 256 * GIB
DEFAULT_LIMIT = "94G"
MAX_CONTEXT_TOKENS = 65_536

_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(?:i?B)?", re.IGNORECASE)
_UNITS = {"": 1, "K": 2**10, "M": MIB, "G": GIB, "T": 2**40}


class GeometryError(ValueError):
    """A memory limit that no pool can be laid out in; the message is one sentence for the user."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Geometry:
    """The layout of one pool. `pages` of `PAGE_BYTES`, `slots` rows of `ROW_BYTES` laid over them."""

    memory_limit_bytes: int
    pages: int
    slots: int

    @property
    def pool_bytes(self) -> int:
        """Size of the scaled pool in this process, in bytes."""
        return self.pages * PAGE_BYTES

    @property
    def tokens(self) -> int:
        """Token positions in the pool: `pages` × 128."""
        return self.pages * PAGE_TOKENS

    def row_start(self, slot: int) -> int:
        """First byte of the row of `slot`, aligned so that every rank's share holds whole float32 values."""
        return slot * self.pool_bytes // self.slots // ROW_ALIGNMENT * ROW_ALIGNMENT

    def slot_pages(self, slot: int) -> range:
        """The pages whose bytes the row of `slot` touches: 37 or 38 of them."""
        start = self.row_start(slot)
        return range(start // PAGE_BYTES, (start + ROW_BYTES - 1) // PAGE_BYTES + 1)


def parse_size(text: str) -> int:
    """Bytes of a binary size such as `50G`, `35.5G` or `512M`. Raises GeometryError."""
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise GeometryError(f"memory size {text!r} is not a number with K, M, G or T, as in 50G")
    return int(float(match[1]) * _UNITS[match[2].upper()])


def geometry_for(memory_limit: str) -> Geometry:
    """The pool that fits under `memory_limit`: ⌊(limit − reserved) / 4 MiB⌋ pages, ⌊pages × 4 / 148⌋ slots."""
    limit = parse_size(memory_limit)
    pages = (limit - RESERVED_BYTES) // NOMINAL_PAGE_BYTES
    if pages < MINIMUM_PAGES:
        raise GeometryError(
            f"--memory-limit {memory_limit} is too small, the model needs at least 35.4G: "
            f"{RESERVED_BYTES / GIB:g} GiB are not KV, and {MINIMUM_PAGES} pages must be left"
        )
    if limit > LARGEST_LIMIT:
        raise GeometryError(f"--memory-limit {memory_limit} is too large: the reference server stops at 256G")
    return Geometry(memory_limit_bytes=limit, pages=pages, slots=pages * NOMINAL_PAGE_BYTES // NOMINAL_ROW_BYTES)
