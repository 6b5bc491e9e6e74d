"""From hidden output to tokens: logits, sampling, speculative verification.

A sampled token depends on the request's seed and the token's position alone, not on how many drafts a round carried.
Verification with a deterministic draft is then plain: sample at each row, go on while the draft guessed the sample.
A row with a value that is not finite has no distribution; it is reported, never repaired.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kvstress.refserver import model
from kvstress.refserver.model import F32, I32, U64
from kvstress.refserver.rank import Partial

MAX_DRAFTS = 5
RECURRENT_GAIN = np.float32(0.15)


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingParams:
    """How the caller wants tokens chosen. `logprobs` is the number of alternatives, or None for no logprobs at all."""

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    seed: int = 0
    logprobs: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenLogprob:
    """Log probability of the chosen token and of the likeliest `top`, best first."""

    token: int
    logprob: float
    top: tuple[tuple[int, float], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampled:
    """One token out of the model, with its log probabilities when they were asked for."""

    token: int
    logprob: TokenLogprob | None = None


def logits(partial: Partial) -> F32:
    """(rows, vocabulary) from the outputs of all ranks. Word frequency counts as far as no head found a match."""
    said = partial.attention * model.head_weights()
    silence = 1 - np.minimum(1, np.abs(partial.attention).mean(axis=1, keepdims=True))
    out: F32 = (said + RECURRENT_GAIN * partial.recurrent) @ model.output_embedding()
    out += silence * model.token_bias()
    out += model.unspeakable()
    return out


def is_distribution(row: F32) -> bool:
    """False when a logit is NaN or +inf: there is nothing to sample from."""
    return bool(np.isfinite(row.max()))


def uniform(seed: int, position: int) -> float:
    """The random number of a position, in [0, 1)."""
    key: U64 = np.array([(seed % 2**32) << 32 | position], np.uint64)
    return float(model.mix(model.mix(key))[0] >> np.uint64(11)) / 2**53


def choose(row: F32, params: SamplingParams, position: int) -> int:
    """The token of one row."""
    if params.temperature <= 1e-5:
        return int(row.argmax())
    scaled = (row - row.max()) / np.float32(params.temperature)
    weights = _cut(np.exp(scaled.astype(np.float64)), params)
    total = np.cumsum(weights)
    return int(np.searchsorted(total, uniform(params.seed, position) * total[-1], side="right"))


def _cut(
    weights: np.ndarray[tuple[int], np.dtype[np.float64]], params: SamplingParams
) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Zero what top_k and top_p exclude."""
    if params.top_k <= 0 and params.top_p >= 1.0:
        return weights
    order = np.argsort(-weights)
    keep = params.top_k if params.top_k > 0 else order.size
    if params.top_p < 1.0:
        mass = np.cumsum(weights[order])
        keep = min(keep, int(np.searchsorted(mass, params.top_p * mass[-1])) + 1)
    weights[order[keep:]] = 0
    return weights


def describe(row: F32, token: int, count: int) -> TokenLogprob:
    """Log probabilities under the model itself: temperature and cuts do not enter."""
    normaliser = row.max() + np.log(np.exp(row - row.max()).sum())
    best = np.argsort(-row, kind="stable")[:count]
    top = tuple((int(index), float(row[index] - normaliser)) for index in best)
    return TokenLogprob(token=token, logprob=float(row[token] - normaliser), top=top)


def propose(tokens: I32, context: list[int]) -> list[int]:
    """Drafts: what followed the last earlier occurrence of the context's last three tokens, or else of two."""
    for length in (3, 2):
        start = _last_after(tokens, context[-length:])
        if start is not None:
            return [int(token) for token in tokens[start : start + MAX_DRAFTS]]
    return []


def _last_after(tokens: I32, phrase: list[int]) -> int | None:
    """Where the text goes on after the last occurrence of `phrase` that has something after it."""
    size = tokens.size - len(phrase)
    if size <= 0 or not phrase:
        return None
    same = tokens[:size] == phrase[0]
    for offset, token in enumerate(phrase[1:], 1):
        same &= tokens[offset : offset + size] == token
    hits = np.flatnonzero(same)
    return int(hits[-1]) + len(phrase) if hits.size else None
