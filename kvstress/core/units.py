"""The three kinds of quantity that people type, each with one reading.

Memory is binary (`50G` = 50 GiB) because that is what servers' memory flags mean; token
counts are decimal (`16k` = 16,000) because that is what model cards mean.
"""

import re
from math import isfinite

from kvstress.core.errors import UsageError

_MEMORY = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_TOKENS = {"": 1, "k": 1_000, "m": 1_000_000}
_SECONDS = {"ms": 0.001, "s": 1.0, "": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def _split(text: str, example: str) -> tuple[float, str]:
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*", text)
    if match is None:
        raise UsageError(f"cannot read {text!r}: expected a number with a unit, such as {example}")
    return float(match[1]), match[2]


def memory(text: str) -> int:
    """Bytes in `text`: `50G`, `1.5GiB`, `512M`; binary multiples."""
    number, unit = _split(text, "50G")
    letter = unit.upper().removesuffix("IB").removesuffix("B")
    if letter not in _MEMORY:
        raise UsageError(f"cannot read {text!r} as a memory size: use K, M, G or T, as in 50G")
    return round(number * _MEMORY[letter])


def tokens(text: str | int) -> int:
    """Tokens in `text`: `16k` is 16,000, `16384` is itself."""
    number, unit = _split(str(text), "16k")
    if unit.lower() not in _TOKENS:
        raise UsageError(f"cannot read {text!r} as a token count: use a plain number or k, as in 16k")
    return round(number * _TOKENS[unit.lower()])


def duration(text: str | float) -> float:
    """Seconds in `text`: `25m`, `90s`, `1.5h`, `200ms`, or a plain number of seconds."""
    number, unit = _split(str(text), "25m")
    if unit.lower() not in _SECONDS:
        raise UsageError(f"cannot read {text!r} as a duration: use ms, s, m, h or d, as in 25m")
    return number * _SECONDS[unit.lower()]


def show_duration(seconds: float) -> str:
    """`seconds` for people: 0.21 s, 14.2 s, 5 m 10 s, 1 h 02 m."""
    if seconds < 60:
        return f"{seconds:.2f} s" if seconds < 10 else f"{seconds:.1f} s"
    whole = round(seconds)
    minutes, rest = divmod(whole, 60)
    return f"{minutes} m {rest:02d} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02d} m"


def show_tokens(count: float) -> str:
    """`count` tokens with thousands separators; what is no count of anything (a server may say `inf`) as it is."""
    return f"{round(count):,}" if isfinite(count) else f"{count:g}"
