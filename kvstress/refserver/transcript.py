"""The answer as it is spoken: what may be said next, what text is final, and what ends it.

Text is final only when no stop string can still begin in it and no character is incomplete, so a stream never has to
take anything back.
"""

from __future__ import annotations

import numpy as np

from kvstress.refserver.model import F32
from kvstress.refserver.sampling import Sampled
from kvstress.refserver.sequence import Chunk, Sequence
from kvstress.refserver.tokenizer import EOS, FIRST_BYTE, TextStream, token_bytes

_QUESTION_MARK = FIRST_BYTE + ord("?")
_SENTENCE_ENDS = (b".", b"\n", b"!", b"?")


class Transcript:
    """Stands between the sampler and the client of one request."""

    def __init__(self, stop: tuple[str, ...] = ()) -> None:
        self._stop = stop
        self._text = TextStream()
        self._held = ""

    def shape(self, row: F32, sequence: Sequence, ahead: list[int]) -> F32:
        """The logits of the next token, given the answer so far and the drafts kept in this round.

        An answer does not begin by repeating the question mark, and one that answers a question ends with its
        sentence; any other text runs to its limit.
        """
        answer = [*sequence.answer[-1:], *ahead]
        shaped = row.copy()
        if not answer:
            shaped[_QUESTION_MARK] = -np.inf
        if sequence.limits.ignore_eos:
            shaped[EOS] = -np.inf
        elif answer and sequence.prompt.question and token_bytes(answer[-1]).endswith(_SENTENCE_ENDS):
            shaped[EOS] = shaped.max() + 40
        return shaped

    def add(self, sequence: Sequence, sampled: list[Sampled]) -> Chunk:
        """Append tokens to the sequence until one ends it; returns what became final."""
        said: list[Sampled] = []
        reason = None
        for each in sampled:
            if each.token == EOS:
                reason = "stop"
                break
            sequence.append(each.token)
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
