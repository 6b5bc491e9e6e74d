"""What the server answered, kept so that a later request can quote it, in bounded memory.

A lazy plan does not say in advance which answers it will quote, and a day of traffic makes
more of them than memory holds. So the answers quoted or given longest ago go first. What must not
happen is that a hole is filled with nothing because its answer was dropped: the run
would go on with other bytes than its plan says. That is an error, never a silent ''.
"""

from collections import OrderedDict
from collections.abc import Iterator, Mapping
from typing import Any

from kvstress.core.errors import CannotJudgeError
from kvstress.core.plan import Answer, Request, resolve

CAPACITY_CHARACTERS = 8_000_000
_ENTRY_COST = 200  # an empty answer still takes a key and a slot


class Transcript:
    """Answers by (step, phase); the least recently used are dropped beyond `capacity` characters."""

    def __init__(self, capacity: int = CAPACITY_CHARACTERS) -> None:
        self._texts: OrderedDict[tuple[int, str], str] = OrderedDict()
        self._capacity = capacity
        self._held = 0
        self._dropped_up_to = -1

    def __len__(self) -> int:
        return len(self._texts)

    def remember(self, step: int, phase: str, text: str) -> None:
        """Keep `text` as what `phase` of `step` answered; a request that failed answered ''."""
        self._forget((step, phase))
        self._texts[step, phase] = text
        self._held += len(text) + _ENTRY_COST
        while self._held > self._capacity and len(self._texts) > 1:
            oldest = next(iter(self._texts))
            self._forget(oldest)
            self._dropped_up_to = max(self._dropped_up_to, oldest[0])

    def resolved(self, request: Request) -> Request:
        """`request` with its holes filled; CannotJudgeError when an answer that it quotes may have been dropped."""
        holes = {(hole.step, hole.phase) for hole in _holes(request.body)}
        if not holes:
            return request
        for key in sorted(holes):
            self._use(key, request)
        return resolve(request, self._texts)

    def _use(self, key: tuple[int, str], request: Request) -> None:
        if key in self._texts:
            self._texts.move_to_end(key)
        elif key[0] <= self._dropped_up_to:
            raise CannotJudgeError(
                f"request {request.id} quotes the answer to {key[1]} of step {key[0]}, which is no longer held: "
                f"the last {self._capacity:,} characters of answers are kept; use fewer lanes or shorter sessions"
            )

    def _forget(self, key: tuple[int, str]) -> None:
        if key in self._texts:
            self._held -= len(self._texts.pop(key)) + _ENTRY_COST


def _holes(value: Any) -> Iterator[Answer]:
    if isinstance(value, Answer):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _holes(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _holes(item)
