"""FP8 bytes in and out, and attention over whole pages.

Decode works on whole pages because a page is the unit a kernel loads. Positions that hold no token are masked, so
their probability is exactly 0, and 0 × NaN is NaN: a float32 byte left behind in such a position, read as FP8, takes
the row down. Prefill gathers live positions only and never sees them. `inert` is the repair in the kernel: the value
of a masked position is not used.
"""

from __future__ import annotations

from dataclasses import dataclass

import ml_dtypes
import numpy as np

from kvstress.refserver.model import F32, SINK_SCORE, U8, recency

_FAINTEST = np.float32(-60)


@dataclass(frozen=True, slots=True, kw_only=True)
class KvFormat:
    """One byte a value: what each byte means, and the bytes of −1 and +1."""

    meaning: F32
    minus_one: int
    plus_one: int

    def encode(self, signs: F32) -> U8:
        """Bytes of an array of ±1, same shape."""
        return np.where(signs > 0, np.uint8(self.plus_one), np.uint8(self.minus_one))

    def decode(self, raw: U8) -> F32:
        """Values of bytes, same shape; may hold NaN."""
        return np.take(self.meaning, raw)


def _fp8() -> KvFormat:
    meaning = np.arange(256, dtype=np.uint8).view(ml_dtypes.float8_e4m3fn).astype(np.float32)
    minus, plus = np.array([-1, 1], ml_dtypes.float8_e4m3fn).view(np.uint8)
    return KvFormat(meaning=meaning, minus_one=int(minus), plus_one=int(plus))


def _int8() -> KvFormat:
    meaning = np.arange(256, dtype=np.uint8).view(np.int8).astype(np.float32) / 64
    return KvFormat(meaning=meaning.astype(np.float32), minus_one=256 - 64, plus_one=64)


KV_FORMATS = {"fp8": _fp8(), "int8": _int8()}


def attend(keys: F32, values: F32, queries: F32, lengths: list[int], inert: bool) -> F32:
    """Attention output of one head for several rows.

    `keys` is (32, positions) and `values` (positions, 32), in whole pages; `queries` is (rows, 32); row i sees the
    first `lengths[i]` positions. Returns (rows, 32), NaN where the bytes made it so.
    """
    first_dead = min(lengths)
    dead = np.arange(first_dead, keys.shape[1]) >= np.array(lengths).reshape(-1, 1)
    weights: F32 = queries @ keys
    for row, length in enumerate(lengths):
        weights[row, :length] += recency()[-length:]
    weights[:, first_dead:][dead] = -np.inf
    peak = np.maximum(weights.max(axis=1, keepdims=True), np.float32(SINK_SCORE))
    weights -= peak
    # exp would give denormals, which the product below takes a hundred times as long over as over zeros. Whole-array
    # steps, because writing through a mask costs as much as the product; what is no number stays so in each of them.
    np.maximum(weights, _FAINTEST, out=weights)
    heard = weights > _FAINTEST
    shares = np.exp(weights, out=weights)
    shares *= heard
    total = shares.sum(axis=1, keepdims=True) + np.exp(np.float32(SINK_SCORE) - peak)
    used = max(lengths) if inert else keys.shape[1]
    out: F32 = (shares[:, :used] @ values[:used]) / total
    return out
