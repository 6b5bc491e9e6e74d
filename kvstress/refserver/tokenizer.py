"""A fixed vocabulary of word pieces, invertible on every string and fast on prompts of 128 KB.

Words come from a list of frequent ones, everything else from pairs of letters and digits and at last from bytes, so
ordinary English or code takes about four bytes a token and `decode(encode(text)) == text` holds for any text. The
vocabulary never learns: two server processes give the same ids to the same text, which a cold twin needs.
"""

from __future__ import annotations

import re
from codecs import getincrementaldecoder
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import product
from pathlib import Path
from string import ascii_lowercase, ascii_uppercase, digits

import numpy as np
from numpy.typing import NDArray

Tokens = NDArray[np.int32]

SPECIALS = ("<|pad|>", "<|bos|>", "<|eos|>", "<|end|>", "<|system|>", "<|user|>", "<|assistant|>", "<|tool|>")
PAD, BOS, EOS, END, SYSTEM, USER, ASSISTANT, TOOL = range(len(SPECIALS))
FIRST_BYTE = 16
FIRST_PIECE = FIRST_BYTE + 256
_LONGEST_PIECE = 13
_CAPITALISED_WORDS = 1200
_UNITS = re.compile(r" ?[A-Za-z0-9]+|\n+| +|[^A-Za-z0-9\n ]+")


def _pieces() -> Iterator[str]:
    words = (Path(__file__).parent / "vocabulary.txt").read_text("utf-8").split()
    capitalised = [word.capitalize() for word in words[:_CAPITALISED_WORDS]]
    lower, upper = ascii_lowercase + digits, ascii_uppercase + digits
    pairs = ["".join(pair) for letters in (lower, upper) for pair in product(letters, repeat=2)]
    mixed = ["".join(pair) for pair in product(ascii_uppercase, ascii_lowercase)]
    for piece in [*words, *capitalised, *pairs, *mixed, *(ascii_lowercase + ascii_uppercase + digits)]:
        yield piece
        yield " " + piece
    for blank, longest in ((" ", 16), ("\n", 4)):
        yield from (blank * length for length in range(2, longest + 1))


_PIECES = tuple(piece for piece in dict.fromkeys(_pieces()) if len(piece) > 1)
_BYTES_OF = (
    *(b"" for _ in range(FIRST_BYTE)),
    *(bytes([value]) for value in range(256)),
    *(piece.encode() for piece in _PIECES),
)
_ID_OF = {piece: FIRST_PIECE + index for index, piece in enumerate(_PIECES)}
VOCABULARY_SIZE = len(_BYTES_OF)


def encode(text: str) -> list[int]:
    """Token ids of `text`; special tokens are never made from text."""
    return [token for unit in _UNITS.findall(text) for token in _unit(unit)]


@lru_cache(maxsize=200_000)
def _unit(unit: str) -> tuple[int, ...]:
    """Longest piece first; what no piece covers becomes its UTF-8 bytes."""
    found: list[int] = []
    at = 0
    while at < len(unit):
        length = _piece_length(unit, at)
        if length > 1:
            found.append(_ID_OF[unit[at : at + length]])
        else:
            found.extend(FIRST_BYTE + value for value in unit[at].encode("utf-8", "surrogatepass"))
        at += length
    return tuple(found)


def _piece_length(unit: str, at: int) -> int:
    for length in range(min(_LONGEST_PIECE, len(unit) - at), 1, -1):
        if unit[at : at + length] in _ID_OF:
            return length
    return 1


def token_bytes(token: int) -> bytes:
    """The bytes a token stands for; special tokens stand for none."""
    return _BYTES_OF[token]


def decode(tokens: Iterable[int]) -> str:
    """Text of `tokens`; broken UTF-8 becomes U+FFFD."""
    return b"".join(map(token_bytes, tokens)).decode("utf-8", "replace")


class TextStream:
    """Turns tokens into text as they come, holding back a character whose bytes are not all there."""

    def __init__(self) -> None:
        self._decoder = getincrementaldecoder("utf-8")("replace")

    def feed(self, tokens: Iterable[int]) -> str:
        """Text that is complete after `tokens`; may be empty."""
        return self._decoder.decode(b"".join(map(token_bytes, tokens)))

    def close(self) -> str:
        """The end: a character whose last bytes never came is not said."""
        self._decoder.reset()
        return ""
