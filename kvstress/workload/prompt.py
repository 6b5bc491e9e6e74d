"""What a source gives for each step, and what it knows before anything is sent."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from kvstress.core.plan import Cancel, Expect
from kvstress.workload.body import Messages


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """One step's prompt. `tokens` is its planned size, None when it was not measured (a file's text, live answers).

    `session`, `turn` and `think` (seconds before it) belong to turns of sessions. The prompts `beside` it leave at the
    same moment, in every phase. `raw` is the prompt of a plain completion, which is sent instead of a chat. `cancel`,
    `max_tokens`, `stream` and `expect` are this prompt's own; None leaves them to the phase.
    `phase` is the only one that it is sent in, None all of them; `due` is when, seconds after the start of the traffic.
    `barrier`: it has the server to itself. `asked` is what its body asks for beside, as tools.
    """

    label: str
    messages: Messages
    recipe: str
    tokens: int | None = None
    session: str | None = None
    turn: int | None = None
    think: float = 0.0
    beside: tuple["Prompt", ...] = ()
    raw: str | tuple[int, ...] | None = None
    cancel: Cancel | None = None
    max_tokens: int | None = None
    stream: bool | None = None
    phase: str | None = None
    due: float | None = None
    barrier: bool = False
    asked: Mapping[str, Any] = field(default_factory=dict)
    expect: Expect | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """A source's prompts: `prompts()` starts anew at each call; `total` is None when they do not end."""

    prompts: Callable[[], Iterator[Prompt]]
    total: int | None
    sentence: str
    stand_in: bool = False
    sources: tuple[Mapping[str, str], ...] = ()


def label(tokens: int) -> str:
    """`tokens` as the context column shows it: 16k, 2500."""
    return f"{tokens // 1000}k" if tokens % 1000 == 0 else str(tokens)
