"""The few places where a planted defect may take hold.

Each hook does nothing until a defect replaces it. The engine calls hooks and knows no defect; a defect sets hooks and
knows no engine internals. Hooks marked *engine* run on the engine's thread.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

from starlette.responses import Response
from starlette.types import Scope

from kvstress.refserver.model import F32
from kvstress.refserver.sequence import Sequence


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One HTTP request as a response hook sees it: its place in arrival order, and what was asked."""

    number: int
    body: dict[str, Any]
    scope: Scope


@dataclass(slots=True, kw_only=True)
class Hooks:
    """What the server asks at each place."""

    # Change the body of a request before it is read.
    body: Callable[[Call], dict[str, Any]] = lambda call: call.body
    # Is a prompt larger than the pool let in?
    oversize: Callable[[], bool] = lambda: False
    # *engine* May this request be given a place now?
    admit: Callable[[Sequence], bool] = lambda sequence: True
    # *engine* The logits of the token after `ahead`, the tokens kept already in this round.
    logits: Callable[[Sequence, F32, list[int]], F32] = lambda sequence, row, ahead: row
    # *engine* Is a cancellation heeded?
    cancel: Callable[[Sequence], bool] = lambda sequence: True
    # *engine* The pages a request really returns.
    released: Callable[[Sequence, list[int]], list[int]] = lambda sequence, pages: pages
    # *engine* An error to fail a request with when it finds no page, instead of making room.
    no_room: Callable[[Sequence], str | None] = lambda sequence: None
    # *engine* A request failed because a row of its logits is invalid.
    failed: Callable[[Sequence], None] = lambda sequence: None
    # A whole answer, and the events of a streamed one.
    answer: Callable[[Call, Response], Response] = lambda call, response: response
    events: Callable[[Call, AsyncIterator[bytes]], AsyncIterator[bytes]] = lambda call, events: events
    # The text of /metrics, and the answer of /health.
    metrics: Callable[[bytes], bytes] = lambda page: page
    health: Callable[[Response], Response] = lambda response: response
