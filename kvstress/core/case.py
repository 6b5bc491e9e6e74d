"""A case is a run cut down to what is sent: requests whose texts stand beside them, so that both can be made smaller.

A prompt is sent more than once (prime, warm, each later turn of a session), and a text that were shortened in one
request only would no longer hit the cache. So a body holds the name of a text where the text stood, and all
requests that sent it share it.
"""

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from kvstress.core.plan import Request, Schedule, Step


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """A text of a prompt: `words` as they were sent, or, where they are None, generated text.

    Generated text is `units` lexemes drawn from `key`, begun with `mark`.
    """

    words: str | None = None
    key: str = ""
    mark: str = ""
    units: int = 0

    @property
    def size(self) -> int:
        """Units of generated text, characters of any other: what is made smaller."""
        return self.units if self.words is None else len(self.words)


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """Where a text stands in a body."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """What is sent, in order, to a fresh server. `value` is the knob's place on its grid, None without a knob.

    `failing` is the `index` of the step at which it was last seen to fail, None when that was outside any step;
    it is knowledge about the case and no part of it.
    """

    steps: tuple[Step, ...]
    texts: Mapping[str, Text] = field(default_factory=dict)
    schedule: Schedule = field(default_factory=Schedule)
    value: int | None = None
    failing: int | None = None

    @property
    def requests(self) -> tuple[Request, ...]:
        """All requests in order."""
        return tuple(request for step in self.steps for request in step.requests)

    def digest(self) -> str:
        """sha256 over all that decides the traffic, the order of a body's keys included: it decides the bytes."""
        return hashlib.sha256(repr((self.steps, self.schedule, self.value, self.used())).encode()).hexdigest()

    def used(self) -> dict[str, Text]:
        """The texts that some request sends, by name."""
        names = {name for request in self.requests for name in pieces(request.body)}
        return {name: text for name, text in self.texts.items() if name in names}

    def size(self) -> "Size":
        """How large it is."""
        sent = [self.texts[name].size for request in self.requests for name in pieces(request.body)]
        asked = [request.body.get("max_tokens") for request in self.requests]
        tokens = sum(value for value in asked if isinstance(value, int))
        return Size(prompts=len(self.steps), requests=len(self.requests), text=sum(sent), tokens=tokens)

    @property
    def breadth(self) -> int:
        """The most answers that one of its requests asks for at once: `n` times the prompts of a batch."""
        return max((_answers(request.body) for request in self.requests), default=0)

    def until(self, count: int) -> "Case":
        """The first `count` steps."""
        return replace(self, steps=self.steps[:count])

    def with_requests(self, change: Callable[[Request], Request | None]) -> "Case":
        """Each request changed, or left out where `change` gives None; a step without requests is left out."""
        steps = (
            replace(step, requests=tuple(new for request in step.requests if (new := change(request)) is not None))
            for step in self.steps
        )
        return replace(self, steps=tuple(step for step in steps if step.requests))


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """`text` in units and characters summed over requests, `tokens` the output that is asked for at most."""

    prompts: int
    requests: int
    text: int
    tokens: int

    def __str__(self) -> str:
        return f"{_many(self.prompts, 'prompt')}, {_many(self.requests, 'request')}, {self.text:,} units of text"


def _answers(body: Mapping[str, Any]) -> int:
    prompt, choices = body.get("prompt"), body.get("n")
    batch = len(prompt) if isinstance(prompt, list) and all(isinstance(one, Piece) for one in prompt) else 1
    return batch * (choices if isinstance(choices, int) else 1)


def _many(count: int, word: str) -> str:
    return f"{count:,} {word}{'' if count == 1 else 's'}"


def pieces(value: Any) -> Iterator[str]:
    """The names of the texts in a body, in order."""
    if isinstance(value, Piece):
        yield value.name
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from pieces(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from pieces(item)


def mapped(value: Any, change: Callable[[Any], Any]) -> Any:
    """`value` with `change` applied to each leaf (texts, numbers and pieces)."""
    if isinstance(value, Mapping):
        return {key: mapped(item, change) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [mapped(item, change) for item in value]
    return change(value)
