"""The /debug/pool page: who owns each page, which rows lie over it, which slots are in use.

For people. It is computed on the engine's thread between steps, so what it shows was true at one moment.
"""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from itertools import groupby
from typing import Any

from kvstress.refserver import audit
from kvstress.refserver.pool import PagePool
from kvstress.refserver.prefix_cache import PrefixCache
from kvstress.refserver.scheduler import Scheduler

_PAGE = """<!doctype html><meta charset="utf-8"><title>KV pool</title>
<style>body{{font:14px monospace;margin:2em}}td,th{{padding:0 1em;text-align:left}}</style>
<h1>KV pool</h1><p>{pages} pages of 128 tokens, {slots} snapshot slots, {free_slots} free</p>
<h2>Owners</h2><table><tr><th>owner<th>pages</tr>{owners}</table>
<h2>Pages</h2><table><tr><th>pages<th>owner<th>aliases</tr>{runs}</table>
<h2>Slots</h2><table><tr><th>slot<th>pages<th>used</tr>{used}</table>
<h2>Cached prompts, next to be evicted first</h2>
<table><tr><th>tokens<th>pages<th>snapshots<th>readers</tr>{cached}</table>
"""


def describe(scheduler: Scheduler) -> dict[str, Any]:
    """The pool as plain data."""
    memory = scheduler.memory
    owner = ["none"] * memory.geometry.pages
    for kind, who, pages in audit.claims(scheduler):
        for page in pages:
            owner[page] = kind.value + who
    return {
        "pages": memory.geometry.pages,
        "slots": memory.geometry.slots,
        "free_slots": memory.pool.free_slots,
        "owners": {name: owner.count(name) for name in sorted(set(owner))},
        "runs": list(_runs(owner, [int(count) for count in memory.pool.alias_count])),
        "slot_table": _slots(memory.pool),
        "cached": _cached(memory.cache),
    }


def page(state: dict[str, Any]) -> str:
    """The same as HTML."""
    return _PAGE.format(
        pages=state["pages"],
        slots=state["slots"],
        free_slots=state["free_slots"],
        owners=_rows(list(state["owners"].items())),
        runs=_rows([(f"{run['first']}-{run['last']}", run["owner"], run["aliases"]) for run in state["runs"]]),
        used=_rows([(slot["slot"], f"{slot['first']}-{slot['last']}", slot["used"]) for slot in state["slot_table"]]),
        cached=_rows([tuple(entry.values()) for entry in state["cached"]]),
    )


def _runs(owner: list[str], aliases: list[int]) -> Iterator[dict[str, Any]]:
    """Neighbouring pages that are alike."""
    for (name, count), group in groupby(range(len(owner)), key=lambda index: (owner[index], aliases[index])):
        pages = list(group)
        yield {"first": pages[0], "last": pages[-1], "owner": name, "aliases": count}


def _slots(pool: PagePool) -> list[dict[str, Any]]:
    ranges = [pool.geometry.slot_pages(slot) for slot in range(pool.geometry.slots)]
    return [
        {"slot": slot, "first": pages[0], "last": pages[-1], "used": pool.slot_used[slot]}
        for slot, pages in enumerate(ranges)
    ]


def _cached(cache: PrefixCache) -> list[dict[str, Any]]:
    return [
        {
            "tokens": int(entry.tokens.size),
            "pages": len(entry.pages),
            "snapshots": {str(position): slot for position, slot in entry.snapshots.items()},
            "readers": entry.pins,
        }
        for entry in cache.checkpoints
    ]


def _rows(rows: list[tuple[Any, ...]]) -> str:
    return "".join("<tr>" + "".join(f"<td>{escape(str(cell))}" for cell in row) + "</tr>" for row in rows)
