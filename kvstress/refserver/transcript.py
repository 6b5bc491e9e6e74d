"""The answer as it is spoken: what may be said next, what text is final, and what ends it.

Text is final only when no stop string can still begin in it and no character is incomplete, so a stream never has to
take anything back.
"""

from __future__ import annotations

from functools import reduce

import numpy as np

from kvstress.refserver.constraint import Constraint
from kvstress.refserver.model import F32
from kvstress.refserver.sampling import Sampled
from kvstress.refserver.sequence import Chunk, Limits, Sequence
from kvstress.refserver.tokenizer import EOS, TextStream, token_bytes

_SENTENCE_ENDS = (b".", b"\n", b"!", b"?")


class Transcript:
    """Stands between the sampler and the client of one request."""

    def __init__(self, limits: Limits) -> None:
        self._stop = limits.stop
        self._constraint = Constraint(parts=limits.script) if limits.script else None
        self._text = TextStream()
        self._held = ""

    def shape(self, row: F32, sequence: Sequence, ahead: list[int]) -> F32:
        """The logits of the next token, given the answer so far and the drafts kept in this round.

        The answer to a question ends with its sentence; any other text runs to its limit.
        """
        answer = [*sequence.answer[-1:], *ahead]
        if self._constraint is not None:
            return reduce(Constraint.after, ahead, self._constraint).narrow(row)
        shaped = row.copy()
        if sequence.limits.ignore_eos:
            shaped[EOS] = -np.inf
        elif np.isfinite(row[EOS]) and self._ends(sequence, answer):
            shaped[EOS] = shaped.max() + 40
        return shaped

    def _ends(self, sequence: Sequence, answer: list[int]) -> bool:
        return bool(answer) and sequence.prompt.question and token_bytes(answer[-1]).endswith(_SENTENCE_ENDS)

    def add(self, sequence: Sequence, sampled: list[Sampled]) -> Chunk:
        """Append tokens to the sequence until one ends it; returns what became final."""
        said: list[Sampled] = []
        reason = None
        for each in sampled:
            if each.token == EOS:
                reason = "stop"
                break
            sequence.append(each.token)
            self._follow(sequence, each.token)
            said.append(each)
            if self._hear(each.token):
                reason = "stop"
                break
            if sequence.generated == sequence.limits.max_tokens:
                reason = "length"
                break
        return Chunk(
            text=self._final() if reason is None else self.flush(),
            tokens=tuple(each.token for each in said),
            logprobs=tuple(each.logprob for each in said if each.logprob is not None),
            finish_reason=reason,
        )

    def flush(self) -> str:
        """All text that is left, a stop string cut off."""
        text, self._held = self._held + self._text.close(), ""
        at = self._stop_at(text)
        return text if at is None else text[:at]

    def forced(self) -> list[int]:
        """Tokens the answer's shape leaves no choice about, and so the best of drafts."""
        return [] if self._constraint is None else self._constraint.forced()

    @property
    def constrained(self) -> bool:
        """Has the answer a shape to keep to?"""
        return self._constraint is not None

    def _follow(self, sequence: Sequence, token: int) -> None:
        """Go on in the script. Where the model may fill in, it answers the question, not the braces around it."""
        if self._constraint is None:
            return
        was_free = self._constraint.in_free_part
        self._constraint = self._constraint.after(token)
        if self._constraint.in_free_part and not was_free:
            sequence.answer_context = list(sequence.prompt.context)

    def _hear(self, token: int) -> bool:
        """Take a token's text in; True when a stop string is complete."""
        self._held += self._text.feed([token])
        return self._stop_at(self._held) is not None

    def _stop_at(self, text: str) -> int | None:
        found = [at for at in (text.find(stop) for stop in self._stop) if at >= 0]
        return min(found, default=None)

    def _final(self) -> str:
        """Text no stop string can reach back into."""
        longest = max(
            (n for stop in self._stop for n in range(1, len(stop)) if self._held.endswith(stop[:n])), default=0
        )
        cut = len(self._held) - longest
        text, self._held = self._held[:cut], self._held[cut:]
        return text
