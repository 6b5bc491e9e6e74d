"""Pseudo-random draws that are a function of a key alone: the same bytes in every process, on every machine.

Python's own generator would do that too, but a stateful one couples every draw to all earlier
ones; a keyed draw lets step 97 be generated without steps 0 to 96.
"""

from hashlib import sha256, shake_256
from typing import TypeVar

Item = TypeVar("Item")
_DIGITS = bytes(byte % 10 for byte in range(256))


def digits(key: str, count: int) -> list[int]:
    """`count` decimal digits; the first n of them do not depend on `count`.

    A byte modulo 10 favours 0 to 5 by one part in 25, which no prompt can notice.
    """
    return list(shake_256(key.encode()).digest(count).translate(_DIGITS))


def fraction(key: str) -> float:
    """A number from 0 (included) to 1 (excluded), in steps of 2**-32."""
    return int.from_bytes(sha256(key.encode()).digest()[:4]) / 2**32


def shuffled(key: str, items: list[Item]) -> list[Item]:
    """`items` in an order of the key's own: sorted by a digest of key and place."""
    order = sorted(range(len(items)), key=lambda place: sha256(f"{key}/{place}".encode()).digest())
    return [items[place] for place in order]
