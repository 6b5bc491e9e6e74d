"""Holds an answer to its script while the model still chooses every token.

The constraint only narrows the logits: a literal leaves one token, a free part leaves the tokens that fit and one that
ends it, whose weight is that of the best token that does not fit. So constrained answers, too, come out of KV bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from kvstress.refserver import tokenizer
from kvstress.refserver.model import F32, I32
from kvstress.refserver.schema import Choice, Digits, Literal, Part, Words

_WORDLIKE = frozenset(b" abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789")
_DIGITS = range(tokenizer.FIRST_BYTE + ord("0"), tokenizer.FIRST_BYTE + ord("9") + 1)


@lru_cache(maxsize=1)
def _wordlike() -> NDArray[np.bool_]:
    """Tokens made of letters, digits and blanks only."""
    spelled = [tokenizer.token_bytes(token) for token in range(tokenizer.VOCABULARY_SIZE)]
    return np.array([bool(raw) and _WORDLIKE.issuperset(raw) for raw in spelled])


@lru_cache(maxsize=1)
def _lengths() -> I32:
    spelled = (tokenizer.token_bytes(token) for token in range(tokenizer.VOCABULARY_SIZE))
    return np.array([len(raw) for raw in spelled], np.int32)


@dataclass(frozen=True, slots=True, kw_only=True)
class Constraint:
    """Where an answer stands in its script.

    `pending` tokens are forced, then comes `parts[at]`: of a choice `spoken` tokens were said, of a free part `said`
    characters.
    """

    parts: tuple[Part, ...]
    at: int = 0
    said: int = 0
    spoken: tuple[int, ...] = ()
    pending: tuple[int, ...] = ()

    @property
    def part(self) -> Part | None:
        """The part being said; None at the end."""
        return self.parts[self.at] if self.at < len(self.parts) else None

    @property
    def in_free_part(self) -> bool:
        """Is the model filling in?"""
        return not self.pending and isinstance(self.part, Words | Digits)

    def forced(self) -> list[int]:
        """The tokens that must come next."""
        if self.pending:
            return list(self.pending)
        if isinstance(self.part, Literal):
            return tokenizer.encode(self.part.text)
        return [] if self.part is not None else [tokenizer.EOS]

    def narrow(self, row: F32) -> F32:
        """The logits of what may come next; what may not is −inf."""
        forced, part = self.forced(), self.part
        if forced:
            return _only(row, [forced[0]])
        if isinstance(part, Choice):
            return _only(row, sorted({option[len(self.spoken)] for option in self._open_options(part)}))
        if isinstance(part, Digits):
            digits = list(_DIGITS[self.said == 0 :]) if self.said < part.most else []
            return self._with_end(row, digits, may_end=self.said > 0)
        assert isinstance(part, Words)
        fitting = np.flatnonzero(_wordlike() & (_lengths() <= part.most - self.said))
        return self._with_end(row, fitting, may_end=self.said >= part.least)

    def after(self, token: int) -> Constraint:
        """Where the answer stands after `token`, one that `narrow` allowed."""
        forced, part = self.forced(), self.part
        if forced:
            return self._next(forced[1:])
        if isinstance(part, Choice):
            chosen = replace(self, spoken=(*self.spoken, token))
            done = list(chosen.spoken) in map(tokenizer.encode, part.options)
            return replace(self, at=self.at + 1, said=0, spoken=()) if done else chosen
        end = self._end()
        if token == end[0]:
            return replace(self, at=self.at + 2, said=0, pending=tuple(end[1:]))
        return replace(self, said=self.said + int(_lengths()[token]))

    def _next(self, pending: list[int]) -> Constraint:
        """Go on with the tokens left of this part; the part itself is done with."""
        step = 0 if self.pending else 1
        return replace(self, at=self.at + step, said=0, pending=tuple(pending))

    def _open_options(self, part: Choice) -> list[list[int]]:
        """The options that begin with what was spoken."""
        size = len(self.spoken)
        spelled = map(tokenizer.encode, part.options)
        return [option for option in spelled if tuple(option[:size]) == self.spoken and len(option) > size]

    def _end(self) -> list[int]:
        """The tokens after a free part: the literal that follows it, or the end of the answer."""
        after = self.parts[self.at + 1] if self.at + 1 < len(self.parts) else None
        return tokenizer.encode(after.text) if isinstance(after, Literal) else [tokenizer.EOS]

    def _with_end(self, row: F32, fitting: NDArray[np.intp] | list[int], *, may_end: bool) -> F32:
        narrowed = _only(row, fitting)
        if may_end or len(fitting) == 0:
            others = row.copy()
            others[fitting] = -np.inf
            narrowed[self._end()[0]] = others.max()
        return narrowed


def _only(row: F32, tokens: Sequence[int] | NDArray[np.intp]) -> F32:
    narrowed = np.full_like(row, -np.inf)
    narrowed[tokens] = row[tokens]
    if len(tokens) == 1:
        narrowed[tokens] = 0
    return narrowed
