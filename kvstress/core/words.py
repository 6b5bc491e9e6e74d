"""Server text is hostile and long: cap it, and keep of it what identifies a failure.

Two failures are the same when the server says the same thing about different requests, so a
signature drops what changes from request to request (ids, addresses, large numbers) and
keeps small numbers, because `device error 6` and `device error 7` are different bugs.
"""

import re

from kvstress.core.exchange import Exchange

WORDS_CAP = 2_000

_VOLATILE = (
    (re.compile(r"\b[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b"), "<id>"),
    (re.compile(r"\b(?:0x)?(?=[0-9a-fA-F]*\d)[0-9a-fA-F]{12,}\b"), "<id>"),
    (re.compile(r"\b(?:chatcmpl|cmpl|req|resp)-[\w-]+"), "<id>"),
    (re.compile(r"\d{4,}(?:\.\d+)?"), "#"),
    (re.compile(r"\d+\.\d+"), "#"),
)


def cap(text: str, length: int = WORDS_CAP) -> str:
    """`text` cut to `length` characters, saying how much was left off."""
    return text if len(text) <= length else f"{text[:length]}… [{len(text) - length:,} more characters]"


def identity(words: str) -> str:
    """`words` without their volatile parts, at most 160 characters: the last part of a signature."""
    for pattern, placeholder in _VOLATILE:
        words = pattern.sub(placeholder, words)
    return " ".join(words.split())[:160]


def status_cell(exchange: Exchange) -> str:
    """`ok`, or `fail: ` and the first 120 characters of what the server said (or of what happened instead)."""
    if exchange.outcome == "completed":
        return "ok"
    said = exchange.error_bytes or exchange.server_words or exchange.kind.value
    return "fail: " + " ".join(said.split())[:120]
