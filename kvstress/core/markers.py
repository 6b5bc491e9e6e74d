"""Strings that name the prompt they were planted in, so that whose they are is computed and never looked up.

A marker is 16 characters of base 32, that is 80 bits: prompt number, slot, and zeros, put through a permutation keyed
by the workload and its seed. Whoever knows the key turns any 16 characters back; zeros where zeros belong mean that
it is a marker, by chance once in 2^44 strings. Three million stored strings would be 300 MB; this is one key.
"""

from hashlib import blake2b

LENGTH = 16
SLOTS = 3
_ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
_VALUE = {letter: value for value, letter in enumerate(_ALPHABET)}
_HALF_BITS = 40
_HALF = (1 << _HALF_BITS) - 1
_SLOT_BITS = 4
# A Feistel network of four rounds is a permutation whatever its rounds compute.
_ROUNDS = 4


class Markers:
    """The markers of one run; `key` is its workload and seed."""

    def __init__(self, key: str) -> None:
        self._keys = tuple(f"{key}/{turn}".encode()[-64:] for turn in range(_ROUNDS))

    def marker(self, number: int, slot: int) -> str:
        """The marker of a prompt's slot; numbers below 2^32, slots below 16."""
        left, right = 0, (number << _SLOT_BITS) | slot
        for key in self._keys:
            left, right = right, left ^ _mix(key, right)
        value = (left << _HALF_BITS) | right
        return "".join(_ALPHABET[(value >> shift) & 31] for shift in range(75, -5, -5))

    def read(self, text: str) -> tuple[int, int] | None:
        """The prompt and slot that a string of 16 characters names; None when it is no marker of this run."""
        if len(text) != LENGTH or not set(text) <= _VALUE.keys():
            return None
        value = 0
        for letter in text:
            value = (value << 5) | _VALUE[letter]
        left, right = value >> _HALF_BITS, value & _HALF
        for key in reversed(self._keys):
            left, right = right ^ _mix(key, left), left
        number, slot = right >> _SLOT_BITS, right & ((1 << _SLOT_BITS) - 1)
        return (number, slot) if left == 0 and number < 1 << 32 and slot < SLOTS else None


def _mix(key: bytes, half: int) -> int:
    return int.from_bytes(blake2b(half.to_bytes(5, "big"), key=key, digest_size=5).digest(), "big")
