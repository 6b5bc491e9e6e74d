"""A turn of somebody's trace, in the one form that all formats of traces come to."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One request of a session. `messages` are new since the session's turn before; `blocks` are the ids of the
    whole prompt's blocks of `block` tokens, meant within `scope`, where there is no text; `tokens` is its length.

    `at` is seconds since the trace's first row, `think` seconds after the session's turn before.
    """

    session: str
    turn: int
    messages: tuple[Mapping[str, Any], ...] = ()
    blocks: tuple[int, ...] = ()
    block: int = 0
    scope: str = ""
    tokens: int | None = None
    max_tokens: int | None = None
    at: float | None = None
    think: float = 0.0
    asked: Mapping[str, Any] = field(default_factory=dict)
