"""Before every step: each page has exactly one owner, and repaired pages are clean on every rank.

The claims are gathered from those who act on them, seven kinds in all; no table of owners exists that could be right
while they are wrong. A page with two owners or none is how one request comes to read another's bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import Enum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kvstress.refserver.memory import Fix, KvMemory
from kvstress.refserver.pool import Pages
from kvstress.refserver.scheduler import Scheduler
from kvstress.refserver.sequence import Phase, Sequence


class Owner(Enum):
    """Who may own a page."""

    FREE = "free list"
    RETIREMENT = "retirement"
    ALIAS = "snapshot alias"
    CHECKPOINT = "checkpoint"
    INBOUND = "inbound ticket"
    REQUEST = "request"
    RETIRED = "retired request"


class AuditViolation(Exception):  # noqa: N818 - what the report calls it
    """The books do not balance; the message names page and owners."""


def claims(scheduler: Scheduler) -> list[tuple[Owner, str, Pages]]:
    """Every claim on pages: its kind, who makes it, and the pages."""
    pool, cache = scheduler.memory.pool, scheduler.memory.cache
    found: list[tuple[Owner, str, NDArray[Any]]] = [
        (Owner.FREE, "", np.flatnonzero(pool.free)),
        (Owner.ALIAS, "", np.flatnonzero((pool.alias_count > 0) | pool.reserved)),
        (Owner.CHECKPOINT, "", np.flatnonzero(cache.page_refs > 0)),
        *((Owner.RETIREMENT, "", pages) for pages in pool.retirement),
        *((_phase_owner(each), f" {each.number}", np.array(each.own_pages)) for each in _placed(scheduler)),
    ]
    return [(owner, who, pages.astype(np.int32)) for owner, who, pages in found]


def _placed(scheduler: Scheduler) -> Iterator[Sequence]:
    yield from scheduler.running
    yield from scheduler.retired


def _phase_owner(sequence: Sequence) -> Owner:
    special = {Phase.INBOUND: Owner.INBOUND, Phase.RETIRED: Owner.RETIRED}
    return special.get(sequence.phase, Owner.REQUEST)


def check(scheduler: Scheduler) -> None:
    """Raise AuditViolation unless everything balances."""
    _check_pages(scheduler)
    _check_slots(scheduler)
    _check_shares(scheduler)
    _check_clean(scheduler.memory)


def _check_pages(scheduler: Scheduler) -> None:
    made = claims(scheduler)
    pages = np.concatenate([pages for _, _, pages in made])
    count = np.bincount(pages, minlength=scheduler.memory.geometry.pages)
    for page in np.flatnonzero(count != 1)[:1]:
        owners = [owner.value + who for owner, who, mine in made for _ in range(int((mine == page).sum()))]
        raise AuditViolation(f"page {page} has {' and '.join(owners) or 'no owner'}")


def _check_slots(scheduler: Scheduler) -> None:
    """Each used slot has one holder, and the alias counts are the sum over used slots."""
    pool = scheduler.memory.pool
    held = [slot for slots in _snapshots(scheduler) for slot in slots]
    expected = np.zeros_like(pool.alias_count)
    for slot in held:
        pages = pool.geometry.slot_pages(slot)
        expected[pages.start : pages.stop] += 1
    if sorted(held) != [slot for slot, used in enumerate(pool.slot_used) if used]:
        raise AuditViolation(f"snapshot slots in use {pool.slot_used.count(True)}, held {sorted(held)}")
    for page in np.flatnonzero(expected != pool.alias_count)[:1]:
        raise AuditViolation(f"page {page} has alias count {pool.alias_count[page]} and {expected[page]} aliases")


def _snapshots(scheduler: Scheduler) -> Iterable[Iterable[int]]:
    yield from (checkpoint.snapshots.values() for checkpoint in scheduler.memory.cache.checkpoints)
    yield from (sequence.snapshots.values() for sequence in _placed(scheduler))


def _check_shares(scheduler: Scheduler) -> None:
    """Shared pages are counted once for each checkpoint, and a request reads cached pages only while it pins them."""
    cache = scheduler.memory.cache
    expected = np.zeros_like(cache.page_refs)
    for checkpoint in cache.checkpoints:
        expected[checkpoint.pages] += 1
    for page in np.flatnonzero(expected != cache.page_refs)[:1]:
        raise AuditViolation(f"page {page} is counted {cache.page_refs[page]} times by {expected[page]} checkpoints")
    for sequence in _placed(scheduler):
        missing = [page for page in sequence.pages[: sequence.shared] if not cache.page_refs[page]]
        if missing:
            raise AuditViolation(f"page {missing[0]} is read by request {sequence.number} and no longer cached")


def _check_clean(memory: KvMemory) -> None:
    """With zeroing on release, what snapshots let go of is zero on every rank."""
    released, memory.just_released = memory.just_released, []
    if memory.fix not in (Fix.ZERO_ON_RELEASE, Fix.ZERO_ON_RELEASE_RANK0) or not released:
        return
    idle = memory.pool.free | memory.pool.reserved
    for retired in memory.pool.retirement:
        idle[retired] = True
    pages = sorted(page for page in set(released) if idle[page] and memory.pool.alias_count[page] == 0)
    for rank, dirty in enumerate(memory.ranks.call("nonzero", pages)):
        if dirty:
            raise AuditViolation(f"rank {rank} page {dirty[0]} was released by a snapshot and is not zero")
