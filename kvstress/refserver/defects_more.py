"""Defects at the seams of a request's life: when it resumes, when its neighbour is aborted, when its stream ends."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator
from typing import Any

from kvstress.refserver import wire
from kvstress.refserver.hooks import Call
from kvstress.refserver.model import F32
from kvstress.refserver.planting import Site
from kvstress.refserver.sequence import Phase, Sequence

_PAUSE_SECONDS = 0.1
_LEAD = 5.0


def resume_repeat(site: Site) -> None:
    """A preempted request says its last token again when it resumes. Twin: it resumes a tenth of a second late."""
    preempted: set[int] = set()

    def released(sequence: Sequence, pages: list[int]) -> list[int]:
        # What ended is retired before it lets go; what lets go otherwise was preempted.
        if sequence.phase is not Phase.RETIRED:
            preempted.add(sequence.number)
        return pages

    def logits(sequence: Sequence, row: F32, ahead: list[int]) -> F32:
        if sequence.number not in preempted:
            return row
        preempted.remove(sequence.number)
        if not sequence.generated:
            return row  # nothing was said yet that could be said again
        site.fired(sequence.number, f"after {sequence.generated} tokens")
        if site.healthy:
            time.sleep(_PAUSE_SECONDS)
            return row
        # It leads the others instead of excluding them, so that a grammar still finds a token it allows.
        changed = row.copy()
        changed[int(sequence.tokens[-1])] = row.max() + _LEAD
        return changed

    site.hooks.released = released
    site.hooks.logits = logits


def abort_neighbour(site: Site) -> None:
    """An abort also drops the youngest other request, never answered. Twin: an abort pauses the engine briefly."""
    victims: set[int] = set()

    def cancel(sequence: Sequence) -> bool:
        running = site.scheduler.running
        others = [each for each in running if each is not sequence]
        # Every request is cancelled once it is answered, and a victim by this very hook: neither is an abort.
        if sequence.number in victims or sequence not in running or not others or not site.turn():
            return True
        victim = max(others, key=lambda each: each.number)
        site.fired(victim.number, f"beside {sequence.number}")
        if site.healthy:
            time.sleep(_PAUSE_SECONDS)
            return True
        victims.add(victim.number)
        site.scheduler.cancel(victim)
        return True

    site.hooks.cancel = cancel


def lost_tail(site: Site) -> None:
    """A stream finishes without its last piece of text. Twin: that piece comes in an event before the finish."""

    async def rewrite(call: Call, events: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        async for event in events:
            for each in _without_tail(site, call, event):
                yield each

    site.hooks.events = lambda call, events: rewrite(call, events) if site.turn() else events


def _without_tail(site: Site, call: Call, event: bytes) -> list[bytes]:
    """The event, its text gone if it finishes a choice; in the twin the text in an event of its own, then the rest."""
    body = None if event == wire.SSE_DONE else json.loads(event.removeprefix(b"data: "))
    choice = body["choices"][0] if body and body.get("choices") else {}
    holder, key = (choice["delta"], "content") if "delta" in choice else (choice, "text")
    if body is None or not choice.get("finish_reason") or not holder.get(key):
        return [event]
    site.fired(call, repr(holder[key]))
    before = wire.sse(_unfinished(body))
    holder[key] = ""
    if not site.healthy:
        return [wire.sse(body)]
    choice["logprobs"] = None  # they went with the text
    return [before, wire.sse(body)]


def _unfinished(body: dict[str, Any]) -> dict[str, Any]:
    return body | {"choices": [body["choices"][0] | {"finish_reason": None}]}
