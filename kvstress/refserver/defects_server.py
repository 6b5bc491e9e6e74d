"""Defects of the server around the model: its pages, its queue, its life and its books."""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Callable
from typing import Any

from kvstress.refserver import tokenizer
from kvstress.refserver.hooks import Call
from kvstress.refserver.planting import Site
from kvstress.refserver.sequence import Sequence

_CHECK_SECONDS = 0.05


class EngineKilled(Exception):  # noqa: N818 - an event, planted
    """What ends the engine in the defect `zombie`."""


def stale_alias(site: Site) -> None:
    """The bug of the report. Nothing to plant: it is there unless a fix is chosen, and the twin is a fix.

    The log says when it failed a request; for the twin, when the pool had first wrapped, which is where it would.
    """
    if not site.healthy:
        site.hooks.failed = lambda sequence: site.fired(sequence.number)
        return
    wrapped: set[bool] = set()

    def admit(sequence: Sequence) -> bool:
        if site.scheduler.memory.counters.evictions and not wrapped:
            wrapped.add(True)
            site.fired(sequence.number)
        return True

    site.hooks.admit = admit


def page_leak(site: Site) -> None:
    """The pages of an aborted request never come back. Twin: they come back a second later."""
    pool = site.scheduler.memory.pool

    def released(sequence: Sequence, pages: list[int]) -> list[int]:
        if not sequence.cancelled or not pages:
            return pages
        site.fired(sequence.number, f"{len(pages)} pages")
        if site.healthy:
            _later(1.0, lambda: site.engine.do(lambda: pool.retire(pages)))
        return []

    site.hooks.released = released


def stuck_waiting(site: Site) -> None:
    """From the `after`-th request (default 8) on nothing is admitted. Twin: admission pauses for a second."""
    after, paused = int(site.number("after", 8)), {"until": 0.0}

    def admit(sequence: Sequence) -> bool:
        if sequence.number < after:
            return True
        if not paused["until"]:
            paused["until"] = time.monotonic() + 1.0
            site.fired(sequence.number)
        time.sleep(0.002)
        return site.healthy and time.monotonic() >= paused["until"]

    site.hooks.admit = admit


def zombie(site: Site) -> None:
    """The engine dies at the `after`-th request (default 8), /health says 200. With `health503` it says so for ever.

    Twin: the engine hangs for two seconds and goes on.
    """
    after = int(site.number("after", 8))

    def admit(sequence: Sequence) -> bool:
        if sequence.number != after:
            return True
        site.fired(sequence.number)
        if site.variant == "health503":
            raise EngineKilled
        threading.Event().wait(2.0 if site.healthy else None)
        return True

    site.hooks.admit = _once(admit)


def _once(admit: Callable[[Sequence], bool]) -> Callable[[Sequence], bool]:
    """Ask about each request once; the queue asks again at every step."""
    asked: set[int] = set()

    def ask(sequence: Sequence) -> bool:
        if sequence.number in asked:
            return True
        asked.add(sequence.number)
        return admit(sequence)

    return ask


def exit_after_idle(site: Site) -> None:
    """The process ends `seconds` (default 3) after its last request. Twin: it notices, and stays."""
    seconds = site.number("seconds", 3.0)

    def watch() -> None:
        busy_at = time.monotonic()
        while True:
            time.sleep(_CHECK_SECONDS)
            stats = site.engine.stats
            if stats.running or stats.waiting or not stats.tally.requests:
                busy_at = time.monotonic()
            elif time.monotonic() - busy_at > seconds:
                site.fired(None, f"idle for {seconds:g} s")
                busy_at = time.monotonic()
                if not site.healthy:
                    os._exit(1)

    threading.Thread(target=watch, name="exit after idle", daemon=True).start()


def gauge_lies(site: Site) -> None:
    """Metrics that cannot be: `negative`, `above-one`, `backwards`, `vanish`. Twin: usage reads 0 when idle."""
    scrapes = {"count": 0}

    def page(text: bytes) -> bytes:
        scrapes["count"] += 1
        if scrapes["count"] > 2:
            site.fired(None)
        match site.variant if scrapes["count"] > 2 else "":
            case "healthy" if not site.engine.stats.running:
                return _set(text, "flare_kv_usage_ratio", lambda value: 0.0)
            case "negative":
                return _set(text, "flare_requests_running", lambda value: -1.0)
            case "above-one":
                return _set(text, "flare_kv_usage_ratio", lambda value: value + 1.25)
            case "backwards" if scrapes["count"] % 2:
                return _set(text, "flare_prompt_tokens_total", lambda value: value // 2 - 1)
            case "vanish":
                return re.sub(rb"(?m)^(# \w+ )?flare_free_snapshots.*\n", b"", text)
        return text

    site.hooks.metrics = page
    site.variant = site.variant or "negative"


def admit_hang(site: Site) -> None:
    """A prompt over the pool is let in, never answered, and blocks all behind it. Twin: it is refused."""

    def body(call: Call) -> dict[str, Any]:
        messages = call.body.get("messages")
        said = "".join(str(each.get("content")) for each in messages) if isinstance(messages, list) else ""
        if len(tokenizer.encode(said)) > site.engine.stats.capacity_tokens:
            site.fired(call)
        return call.body

    site.hooks.body = body
    site.hooks.oversize = lambda: not site.healthy


def ghost_decode(site: Site) -> None:
    """Generation goes on after the client has gone. Twin: it stops a second late."""
    due: set[int] = set()

    def cancel(sequence: Sequence) -> bool:
        if sequence.number in due or sequence not in site.scheduler.in_flight:
            return True
        due.add(sequence.number)
        site.fired(sequence.number)
        if site.healthy:
            _later(1.0, lambda: site.engine.do(lambda: site.scheduler.cancel(sequence)))
        return False

    site.hooks.cancel = cancel


def overflow_500(site: Site) -> None:
    """Requests that fit alone but not together fail. Twin: they wait, or are preempted."""

    def no_room(sequence: Sequence) -> str | None:
        site.fired(sequence.number)
        return None if site.healthy else "Context size has been exceeded."

    site.hooks.no_room = no_room


def counter_drift(site: Site) -> None:
    """One generated token in ten is not counted. Twin: one in a thousand is counted twice."""
    factor = 1.001 if site.healthy else 0.9

    def page(text: bytes) -> bytes:
        site.fired(None)
        return _set(text, "flare_generation_tokens_total", lambda value: float(int(value * factor)))

    site.hooks.metrics = page


def _later(seconds: float, command: Callable[[], object]) -> None:
    timer = threading.Timer(seconds, command)
    timer.daemon = True
    timer.start()


def _set(text: bytes, name: str, change: Callable[[float], float]) -> bytes:
    """Change the value of a sample without labels."""

    def rewrite(line: re.Match[bytes]) -> bytes:
        return line[1] + f" {change(float(line[2]))}".encode()

    return re.sub(rb"(?m)^(" + name.encode() + rb") (\S+)$", rewrite, text)
