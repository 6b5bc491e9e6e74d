"""From rows to turns: which session a row belongs to, and what is new in it.

Rows that carry their whole history would send it twice if they were taken for new messages, and the other way round
would lose it; so it is looked up, not believed. What was seen is kept as digests, so that a trace of any size is read
in bounded memory.
"""

import json
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from kvstress.core.turn import Turn
from kvstress.traces.row import Notes, Row

# Histories that are remembered, the latest used; a trace that interleaves more sessions begins some anew.
_REMEMBERED = 50_000


@dataclass(slots=True)
class _Past:
    """A session so far: how many turns, and how many messages with which digest. `scope` is what the trace calls it."""

    session: str
    scope: str = ""
    turns: int = 0
    count: int = 0
    digest: str = ""


def turns(rows: Iterable[Row], notes: Notes) -> Iterator[Turn]:
    """The turns of `rows`, in their order. Notes what their history was seen to be."""
    sessions: OrderedDict[str, _Past] = OrderedDict()
    first: float | None = None
    seen: set[str] = set()
    branches = 0
    for place, row in enumerate(rows, start=1):
        digests = _digests(row.messages)
        past, begins = _past(row, digests, sessions, place)
        new = row.messages[past.count :] if begins else row.messages
        if row.messages and past.turns:
            seen.add("cumulative" if begins else "delta")
        branches += past.turns == 0 and past.session != past.scope and bool(past.scope)
        first = row.at if first is None else first
        yield Turn(
            session=past.session,
            turn=past.turns,
            messages=new,
            blocks=row.blocks,
            block=row.block,
            scope=row.scope,
            tokens=row.tokens,
            max_tokens=row.max_tokens,
            at=None if row.at is None or first is None else round(max(0.0, row.at - first), 6),
            think=row.think,
            asked=row.asked,
        )
        _remember(past, new, digests, begins or not past.turns, sessions)
    if branches:
        notes.told["branches"] = f"{branches} prompts that go on from none of their session's, each sent as its own"
    if seen:
        notes.told["history"] = f"{' and '.join(sorted(seen))} (seen)"


def _past(row: Row, digests: list[str], sessions: OrderedDict[str, _Past], place: int) -> tuple[_Past, bool]:
    """The session of `row`, and whether its messages begin with that session's."""
    scope = row.session or ""
    if row.session is not None and row.whole is not True:
        past = sessions.get(f"={scope}") or _Past(scope, scope)
        begins = row.whole is not False and 0 < past.count <= len(digests) and digests[past.count - 1] == past.digest
        return past, begins
    for count in range(len(digests) - 1, 0, -1):
        if (found := sessions.get(f"{scope}|{digests[count - 1]}")) is not None and found.digest == digests[count - 1]:
            return found, True
    # Whole prompts of one session that go on from none of its others (a branch, a shortened history, an aside of the
    # agent) must not be added to them: each begins anew.
    taken = row.session is None or f"={scope}" in sessions
    return _Past(f"{scope}/r{place}".lstrip("/") if taken else scope, scope), False


def _remember(
    past: _Past, new: tuple[Mapping[str, Any], ...], digests: list[str], whole: bool, sessions: OrderedDict[str, _Past]
) -> None:
    if whole:
        past.count, past.digest = len(digests), digests[-1] if digests else ""
    else:
        past.count += len(new)
        past.digest = _chained(past.digest, new)[-1] if new else past.digest
    past.turns += 1
    for key in (f"={past.session}", f"{past.scope}|{past.digest}"):
        sessions[key] = past
        sessions.move_to_end(key)
    while len(sessions) > _REMEMBERED:
        sessions.popitem(last=False)


def _digests(messages: tuple[Mapping[str, Any], ...]) -> list[str]:
    """The digest of each leading part of `messages`."""
    return _chained("", messages)


def _chained(before: str, messages: tuple[Mapping[str, Any], ...]) -> list[str]:
    found: list[str] = []
    for message in messages:
        before = sha256((before + json.dumps(message, sort_keys=True, default=str)).encode()).hexdigest()
        found.append(before)
    return found
