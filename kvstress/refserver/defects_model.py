"""Defects of what is said: a plain 200 with the wrong words, as most corruption is.

They work on logits, so that text, log probabilities and later tokens follow as they would from a wrong computation.
"""

from __future__ import annotations

import re
import time
from collections import deque
from collections.abc import Callable
from itertools import count
from typing import Any

import numpy as np

from kvstress.refserver import tokenizer
from kvstress.refserver.geometry import PAGE_TOKENS
from kvstress.refserver.hooks import Call
from kvstress.refserver.model import F32
from kvstress.refserver.planting import Site
from kvstress.refserver.sequence import Sequence

_BANG = tokenizer.FIRST_BYTE + ord("!")
_NEAR_TIE = 0.3
_MARKER = re.compile(r"[A-Za-z0-9]{12,}")
_LONG_TEXT = 8000
_LATE = 3


def bang_flood(site: Site) -> None:
    """Token "!" for ever once the pool has wrapped. Twin: one, at the start of an answer."""

    def logits(sequence: Sequence, row: F32, ahead: list[int]) -> F32:
        if not site.scheduler.memory.counters.evictions or (site.healthy and _index(sequence, ahead) > 0):
            return row
        _note_first(site, sequence, ahead)
        return _only(row, _BANG)

    site.hooks.logits = logits


def warm_drift(site: Site) -> None:
    """On a warm send a confident token changes. Twin: only tokens that nearly tie change."""
    _when_wrong(site, lambda sequence: bool(sequence.cached_tokens))


def batch_mixup(site: Site) -> None:
    """Wrong whenever another request runs beside. Twin: only tokens that nearly tie change."""
    _when_wrong(site, lambda sequence: len(site.scheduler.running) > 1)


def pressure_flip(site: Site) -> None:
    """Wrong above `fill` (default 0.95) of the pool. Twin: only tokens that nearly tie change."""
    limit = site.number("fill", 0.95)

    def full(sequence: Sequence) -> bool:
        pool = site.scheduler.memory.pool
        return 1 - pool.free_pages / pool.kv_pages >= limit

    _when_wrong(site, full)


def tail_page(site: Site) -> None:
    """Wrong where a prompt fills a quarter of its last page at most. Twin: only tokens that nearly tie change."""
    _when_wrong(site, lambda sequence: 0 < sequence.prompt_tokens % PAGE_TOKENS <= PAGE_TOKENS // 4)


def order_leak(site: Site) -> None:
    """Wrong after a prompt longer than one's own. Twin: such a prompt changes nearly tied tokens alone."""
    previous: deque[int] = deque([0], maxlen=2)
    seen: set[int] = set()

    def after_longer(sequence: Sequence) -> bool:
        if sequence.number not in seen:
            seen.add(sequence.number)
            previous.append(sequence.prompt_tokens)
        return previous[0] > sequence.prompt_tokens

    _when_wrong(site, after_longer)


def cross_talk(site: Site) -> None:
    """An answer begins with a marker out of an earlier prompt. Twin: with one out of its own."""
    earlier: deque[list[int]] = deque(maxlen=4)
    scripts: dict[int, list[int]] = {}

    def meet(sequence: Sequence) -> None:
        own = sequence.prompt.tokens
        source = own if site.healthy else next(iter(earlier), None)
        scripts[sequence.number] = _marker(source) if source and site.turn() else []
        earlier.append(own)
        if scripts[sequence.number]:
            site.fired(sequence.number, tokenizer.decode(scripts[sequence.number]))

    def logits(sequence: Sequence, row: F32, ahead: list[int]) -> F32:
        if sequence.number not in scripts:
            meet(sequence)
        script, index = scripts[sequence.number], _index(sequence, ahead)
        return _only(row, script[index]) if index < len(script) else row

    site.hooks.logits = logits


def slow_ageing(site: Site) -> None:
    """Each answered request makes every token slower, by `seconds` (default 0.0002). Twin: slow from the start."""
    seconds = site.number("seconds", 0.0002)

    def logits(sequence: Sequence, row: F32, ahead: list[int]) -> F32:
        age = 20 if site.healthy else site.scheduler.tally.finished
        time.sleep(min(0.1, seconds * age))
        _note_first(site, sequence, ahead)
        return row

    site.hooks.logits = logits


def silent_truncation(site: Site) -> None:
    """The middle of a long prompt is cut, and only usage shows it. Twin: a long prompt is left whole."""
    longest = int(site.number("characters", _LONG_TEXT))

    def body(call: Call) -> dict[str, Any]:
        messages = call.body.get("messages")
        if not isinstance(messages, list) or not messages or not isinstance(messages[-1], dict):
            return call.body
        text = messages[-1].get("content")
        if not isinstance(text, str) or len(text) <= longest:
            return call.body
        site.fired(call, f"{len(text)} characters")
        cut = text if site.healthy else text[: longest // 2] + text[-longest // 2 :]
        return call.body | {"messages": [*messages[:-1], messages[-1] | {"content": cut}]}

    site.hooks.body = body


def _when_wrong(site: Site, condition: Callable[[Sequence], bool]) -> None:
    """While `condition` holds, the fourth token of an answer is the second best one."""
    noise = (np.random.default_rng(number).random() for number in count())

    def logits(sequence: Sequence, row: F32, ahead: list[int]) -> F32:
        wrong = condition(sequence)  # asked at every token: some conditions watch all requests, also the short ones
        if _index(sequence, ahead) != _LATE or not wrong:
            return row
        best = row[np.argsort(-row)[:2]]
        if site.healthy and (best[0] - best[1] > _NEAR_TIE or next(noise) > 0.5):
            return row
        site.fired(sequence.number, f"gap {best[0] - best[1]:.3f}")
        changed = row.copy()
        top = int(row.argmax())
        changed[top] = best[1] - 0.01 if site.healthy else -np.inf
        return changed

    site.hooks.logits = logits


def _index(sequence: Sequence, ahead: list[int]) -> int:
    """Which token of the answer is being chosen."""
    return sequence.generated + len(ahead)


def _note_first(site: Site, sequence: Sequence, ahead: list[int]) -> None:
    if _index(sequence, ahead) == 0:
        site.fired(sequence.number)


def _only(row: F32, token: int) -> F32:
    only = np.full_like(row, -np.inf)
    only[token] = 0
    return only


def _marker(tokens: list[int]) -> list[int]:
    """Tokens of a marker in a prompt: the first long run of letters and digits, or else a few words."""
    text = tokenizer.decode(tokens)
    found = _MARKER.search(text)
    return tokenizer.encode(" " + (found[0] if found else text[:40]))
