"""One request inside the engine: its tokens, its pages, how far it has got, and what it has said.

It holds no policy. The engine moves it through the phases; the text leaves through `deliver`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

import numpy as np

from kvstress.refserver.geometry import PAGE_TOKENS
from kvstress.refserver.model import HISTORY, I32
from kvstress.refserver.prefix_cache import Checkpoint, Match
from kvstress.refserver.sampling import SamplingParams, TokenLogprob
from kvstress.refserver.schema import Part
from kvstress.refserver.tokenizer import PAD


class Phase(Enum):
    """Where a request stands; INBOUND has its pages granted and its cached state not yet restored."""

    WAITING = "waiting"
    INBOUND = "inbound"
    PREFILL = "prefill"
    DECODE = "decode"
    RETIRED = "retired"


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """Text that became final, and the tokens behind it. The last chunk carries `finish_reason`."""

    text: str
    tokens: tuple[int, ...] = ()
    logprobs: tuple[TokenLogprob, ...] = ()
    finish_reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """The engine gave the request up."""

    message: str
    code: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """The prompt has a place: how many of its tokens came out of the cache."""

    cached_tokens: int


Output = Chunk | Failure | Started


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """What to compute. `context` is what the first answer token continues; `question` lets an answer end itself."""

    tokens: list[int]
    context: list[int]
    question: bool = False
    salt: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """When to stop, and the shape of the answer if it has one."""

    max_tokens: int
    stop: tuple[str, ...] = ()
    ignore_eos: bool = False
    script: tuple[Part, ...] = ()


class Sequence:
    """A request in the engine. `tokens` is prompt and answer so far; `computed` of them have KV and state."""

    def __init__(
        self, number: int, prompt: Prompt, params: SamplingParams, limits: Limits, deliver: Callable[[Output], None]
    ) -> None:
        self.number = number
        self.prompt = prompt
        self.params = params
        self.limits = limits
        self.deliver = deliver
        self.prompt_tokens = len(prompt.tokens)
        self._tokens = np.full(HISTORY + self.prompt_tokens + limits.max_tokens, PAD, np.int32)
        self._tokens[HISTORY : HISTORY + self.prompt_tokens] = prompt.tokens
        self.total = self.prompt_tokens
        self.answer_context = list(prompt.context)
        self.phase = Phase.WAITING
        self.computed = 0
        self.cached_tokens: int | None = None
        self.pages: list[int] = []
        self.shared = 0
        self.match: Match | None = None
        self.snapshots: dict[int, int] = {}
        self.to_save: list[int] = []
        self.rounds = 0
        self.outcome: Chunk | Failure | None = None
        self.cancelled = False

    @property
    def tokens(self) -> I32:
        """All tokens so far."""
        return self._tokens[HISTORY : HISTORY + self.total]

    @property
    def own_pages(self) -> list[int]:
        """Pages that are this request's alone; those before belong to the prefix cache."""
        return self.pages[self.shared :]

    @property
    def answer(self) -> list[int]:
        """Answer tokens so far."""
        return [int(token) for token in self._tokens[HISTORY + self.prompt_tokens : HISTORY + self.total]]

    @property
    def generated(self) -> int:
        """Number of answer tokens so far."""
        return self.total - self.prompt_tokens

    def window(self, start: int, stop: int) -> I32:
        """Tokens [start, stop) with `HISTORY` more in front."""
        return self._tokens[start : HISTORY + stop]

    def append(self, token: int) -> None:
        """Add an answer token."""
        self._tokens[HISTORY + self.total] = token
        self.total += 1
        self.answer_context.append(token)

    def contexts(self, drafts: list[int]) -> I32:
        """The contexts of the rows of a round: after the last token, and after each draft; (1 + drafts, HISTORY)."""
        run = [PAD] * HISTORY + self.answer_context + drafts
        rows = [run[len(run) - HISTORY - left : len(run) - left] for left in range(len(drafts), -1, -1)]
        return np.array(rows, np.int32)

    def snapshot_positions(self) -> list[int]:
        """Where the state is worth saving: before the last prompt token, and half way at a page boundary.

        A prompt shorter than a page is not worth a row of 37 pages.
        """
        last = self.prompt_tokens - 1
        half = (self.computed + last) // 2 // PAGE_TOKENS * PAGE_TOKENS
        if self.prompt_tokens < PAGE_TOKENS:
            return []
        return [position for position in (half, last) if position > self.computed]

    def release(self) -> None:
        """Forget place and progress, keep the tokens: a preempted request starts again from them."""
        self.pages, self.shared, self.match, self.computed, self.rounds = [], 0, None, 0, 0
        self.snapshots, self.to_save = {}, []


def checkpoint_of(sequence: Sequence) -> Checkpoint:
    """What stays in the prefix cache when a request ends: the pages of its prompt and the states on the way."""
    count = -(-sequence.prompt_tokens // PAGE_TOKENS)
    return Checkpoint(
        tokens=sequence.tokens[: sequence.prompt_tokens].copy(),
        salt=sequence.prompt.salt,
        pages=sequence.pages[:count],
        snapshots=dict(sequence.snapshots),
    )
