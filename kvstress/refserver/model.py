"""The toy model's fixed weights: codes for tokens and contexts, and a recurrence that is exact in float32.

Attention is an induction head. The key at a position is a code of the tokens before it, the value a code of its own
token, so a query made from the last few tokens finds what followed them earlier in the prompt. The answer to a planted
question is therefore read out of KV bytes and changes when those bytes do. Keys and values are ±1 and exact in FP8.

The recurrence keeps 148 heads of 32 × 32. Its inputs and its decayed state lie on a grid of 2^-12 and stay below 2^12,
so every sum is exact in float32, whatever the order. Cutting a prompt elsewhere (a chunk, a restored snapshot) cannot
change a bit of the state. A free-running float recurrence would differ in the last bits and hide real damage in noise.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from kvstress.refserver import tokenizer
from kvstress.refserver.geometry import MAX_CONTEXT_TOKENS, PAGE_TOKENS

F32 = NDArray[np.float32]
U8 = NDArray[np.uint8]
I32 = NDArray[np.int32]
U64 = NDArray[np.uint64]

KV_HEADS = 2
HEAD_DIM = 32
CODE_DIM = KV_HEADS * HEAD_DIM
STATE_HEADS = 148
STATE_DIM = 32
STATE_ROWS = STATE_HEADS * STATE_DIM
GRID = 4096.0
# Tokens of context in the key of each head, and how loudly each speaks: they mostly agree, and the longer one decides.
CONTEXT_TOKENS = (3, 2)
HEAD_WEIGHTS = (1.0, 0.6)
HISTORY = max(CONTEXT_TOKENS)
# A match scores 32 × SHARPNESS less RECENCY × ln(distance). Of several matches the last one weighs most, and one at the
# far end of the context (−21) still stands clear of the best chance resemblance and of the sink.
SHARPNESS = 2.5
RECENCY = 2.0
# A sink with no value, as trained models have: a query that matches nothing must not settle on its nearest stranger.
SINK_SCORE = 48.0
_QUESTION_MARK = tokenizer.FIRST_BYTE + ord("?")
_INPUTS_PER_ROW = 8


def mix(values: U64) -> U64:
    """A bijective 64-bit finaliser (the constants are SplitMix64's); shape is kept."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


def hash_rows(rows: I32, salt: int) -> U64:
    """One 64-bit hash for each row of token ids, (n, k) → (n,)."""
    found = np.full(rows.shape[0], salt * 0x9E3779B97F4A7C15 % 2**64, np.uint64)
    for column in range(rows.shape[1]):
        found = mix(found + rows[:, column].astype(np.uint64) + np.uint64(0x632BE59BD9B4E019))
    return found


def signs(hashes: U64) -> F32:
    """The low 32 bits of each hash as ±1, (n,) → (n, 32)."""
    bits = np.unpackbits(hashes.astype("<u8").view(np.uint8).reshape(-1, 8)[:, :4], axis=1)
    return bits.astype(np.float32) * 2 - 1


def windows(tokens: I32, length: int) -> I32:
    """For each position after the first `HISTORY`, the `length` tokens before it, (HISTORY + n,) → (n, length)."""
    # numpy's own view of windows costs more to make than a round's few tokens cost to copy.
    first = np.arange(HISTORY - length, tokens.size - length)
    found: I32 = tokens[first[:, None] + np.arange(length)]
    return found


def query(contexts: I32, head: int) -> F32:
    """The query of `head` for the contexts, (n, HISTORY) → (n, 32)."""
    found: F32 = signs(_context_hash(contexts, head)) * np.float32(SHARPNESS)
    return found


def key(tokens: I32, head: int) -> F32:
    """Keys of `head` for a run of tokens that starts with `HISTORY` earlier ones, (HISTORY + n,) → (n, 32) of ±1.

    What was asked before is no answer, and what ended there does not go on: at a question mark or a special token the
    key is one no query has.
    """
    new, hashes = tokens[HISTORY:], _context_hash(windows(tokens, HISTORY), head)
    return signs(np.where((new == _QUESTION_MARK) | (new < tokenizer.FIRST_BYTE), mix(hashes), hashes))


def _context_hash(contexts: I32, head: int) -> U64:
    return hash_rows(contexts[:, HISTORY - CONTEXT_TOKENS[head] :], 11 + head)


@lru_cache(maxsize=1)
def recency() -> F32:
    """Score of a distance in tokens, from the farthest to 1 (the token just before): (longest context,)."""
    distance = np.arange(MAX_CONTEXT_TOKENS, 0, -1, dtype=np.float32)
    found: F32 = -np.float32(RECENCY) * np.log(distance)
    return found


@lru_cache(maxsize=1)
def head_weights() -> F32:
    """`HEAD_WEIGHTS` for every output dimension, (64,)."""
    return np.repeat(np.array(HEAD_WEIGHTS, np.float32), HEAD_DIM)


@lru_cache(maxsize=1)
def token_codes() -> F32:
    """The value code of every token, which is also the output embedding: (vocabulary, 64) of ±1."""
    ids = np.arange(tokenizer.VOCABULARY_SIZE, dtype=np.int32).reshape(-1, 1)
    return np.hstack([signs(hash_rows(ids, 21 + head)) for head in range(KV_HEADS)])


@lru_cache(maxsize=1)
def output_embedding() -> F32:
    """`token_codes` as the last product reads them, (64, vocabulary): along rows, which halves its time."""
    return np.ascontiguousarray(token_codes().T)


@lru_cache(maxsize=1)
def unspeakable() -> F32:
    """0 for tokens that may be said, −inf for special tokens other than the end of the answer: (vocabulary,)."""
    never = np.zeros(tokenizer.VOCABULARY_SIZE, np.float32)
    never[: tokenizer.FIRST_BYTE] = -np.inf
    never[tokenizer.EOS] = 0
    return never


@lru_cache(maxsize=1)
def token_bias() -> F32:
    """What the model says when nothing in the prompt matches: frequent words first, single bytes hardly ever."""
    bias = np.zeros(tokenizer.VOCABULARY_SIZE, np.float32)
    bias[tokenizer.FIRST_BYTE : tokenizer.FIRST_PIECE] = -14.0
    bias[tokenizer.FIRST_BYTE + 32 : tokenizer.FIRST_BYTE + 127] = -4.0
    rank = np.arange(tokenizer.VOCABULARY_SIZE - tokenizer.FIRST_PIECE, dtype=np.float32)
    bias[tokenizer.FIRST_PIECE :] = -np.log1p(rank / 50)
    bias[tokenizer.EOS] = -14.0
    return bias


@lru_cache(maxsize=1)
def state_values() -> F32:
    """The recurrent value of every token, (vocabulary, 32), on the grid and inside (−1, 1)."""
    ids = np.arange(tokenizer.VOCABULARY_SIZE * STATE_DIM, dtype=np.int32).reshape(-1, 1)
    steps = hash_rows(ids, 31) % np.uint64(8191)
    return ((steps.astype(np.float32) - 4095) / np.float32(GRID)).reshape(-1, STATE_DIM)


def _row_slice(rank: int, ranks: int) -> slice:
    share = STATE_ROWS // ranks
    return slice(rank * share, (rank + 1) * share)


def state_inputs(rank: int, ranks: int) -> F32:
    """How the 32 features of a token enter each state row of `rank`: (rows, 32), eight entries of ±1 in a row."""
    order = np.argsort(hash_rows(np.arange(STATE_ROWS * STATE_DIM, dtype=np.int32).reshape(-1, 1), 41).reshape(-1, 32))
    weights = np.zeros((STATE_ROWS, STATE_DIM), np.float32)
    sign = signs(hash_rows(np.arange(STATE_ROWS, dtype=np.int32).reshape(-1, 1), 42))[:, :_INPUTS_PER_ROW]
    np.put_along_axis(weights, order[:, :_INPUTS_PER_ROW], sign, axis=1)
    return np.ascontiguousarray(weights[_row_slice(rank, ranks)])


def state_decay(rank: int, ranks: int) -> F32:
    """What each head keeps of its state from one page to the next: (rows, 1), between 1/4 and 3/4.

    At most 8 × 128 enters a row in a page, so |state| ≤ 1024 / (1 − 3/4) = 4096 = 2^12 whatever is sent.
    """
    keep = 64 + np.arange(STATE_HEADS) * 128 // (STATE_HEADS - 1)
    rows = np.repeat(keep.astype(np.float32) / 256, STATE_DIM).reshape(-1, 1)
    return np.ascontiguousarray(rows[_row_slice(rank, ranks)])


def advance(state: F32, tokens: I32, start: int, inputs: F32, decay: F32) -> None:
    """Take `state` (rows, 32) in place over the tokens from position `start`; `tokens` has `HISTORY` more in front."""
    features, values = state_entries(tokens)
    at = 0
    while at < len(features):
        room = PAGE_TOKENS - (start + at) % PAGE_TOKENS
        page = slice(at, min(at + room, len(features)))
        if page.stop - at == 1:
            advance_one(state, features[at], values[at], start + at, inputs, decay)
        else:
            _turn_page(state, start + at, decay)
            state += inputs @ (features[page].T @ values[page])
        at = page.stop


def advance_one(state: F32, feature: F32, value: F32, position: int, inputs: F32, decay: F32) -> None:
    """`advance` over the one token at `position`, whose entries, (32,) each, are known: the same bits, sooner."""
    _turn_page(state, position, decay)
    state += (inputs @ feature)[:, None] * value


def state_entries(tokens: I32) -> tuple[F32, F32]:
    """What each token brings to the state: its features and its value, both (n, 32), of (HISTORY + n,) tokens."""
    new = tokens[HISTORY:]
    features = signs(hash_rows(windows(tokens, 1), 43)) * signs(hash_rows(new.reshape(-1, 1), 44))
    return features, state_values()[new]


def _turn_page(state: F32, position: int, decay: F32) -> None:
    """At the first token of a page but the first, let the state fade, back onto its grid."""
    if position % PAGE_TOKENS == 0 and position > 0:
        np.multiply(state, decay * np.float32(GRID), out=state)
        np.rint(state, out=state)
        np.multiply(state, np.float32(1 / GRID), out=state)


def readout(state: F32, token: int) -> F32:
    """What a rank's share of the state says after `token`: (64,), to be summed over ranks."""
    seen = np.tanh(state @ state_values()[token] / 16)
    total: F32 = seen.reshape(-1, CODE_DIM).sum(axis=0) / np.float32(STATE_ROWS // CODE_DIM) ** np.float32(0.5)
    return total
