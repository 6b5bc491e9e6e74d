"""The arithmetic: states exact however a prompt is cut, and a stale byte fatal to decode alone."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvstress.refserver.geometry import geometry_for
from kvstress.refserver.model import HISTORY, I32
from kvstress.refserver.rank import Partial, Rank, RankConfig
from kvstress.refserver.tokenizer import FIRST_PIECE

GEOMETRY = geometry_for("36G")
LENGTH = 300


def _tokens(count: int) -> I32:
    body = np.random.default_rng(1).integers(FIRST_PIECE, FIRST_PIECE + 50, count)
    return np.concatenate([np.zeros(HISTORY, np.int64), body]).astype(np.int32)


def _rank(**config: object) -> Rank:
    return Rank(RankConfig(geometry=GEOMETRY, **config))  # type: ignore[arg-type]


@settings(max_examples=25, deadline=None)
@given(st.sets(st.integers(1, LENGTH - 1), max_size=6))
def test_the_recurrent_state_does_not_depend_on_where_a_prompt_is_cut(cuts: set[int]) -> None:
    rank, tokens = _rank(), _tokens(LENGTH)
    for request, bounds in ((1, [0, LENGTH]), (2, [0, *sorted(cuts), LENGTH])):
        rank.begin(request, None)
        for start, stop in pairwise(bounds):
            rank.prefill(request, tokens[start : stop + HISTORY], start, [0, 1, 2])
    assert np.array_equal(rank.working[1].state, rank.working[2].state)


def test_a_restored_state_is_the_saved_one_bit_for_bit() -> None:
    rank, tokens = _rank(), _tokens(LENGTH)
    rank.begin(1, None)
    rank.prefill(1, tokens, 0, [0, 1, 2])
    rank.save(1, 3)
    rank.begin(2, 3)
    assert rank.working[1].state.tobytes() == rank.working[2].state.tobytes()
    assert np.abs(rank.working[2].state).max() > 0


def _outputs(rank: Rank) -> tuple[Partial, Partial]:
    """Prefill's output after a prompt whose tail page was a snapshot row before, and decode's one token later."""
    tokens = _tokens(LENGTH + 1)
    pages = [0, 1, GEOMETRY.slot_pages(1)[5]]
    rank.begin(9, None)
    rank.prefill(9, tokens, 0, [60, 61, 62])
    rank.save(9, 1)
    rank.begin(1, None)
    rank.prefill(1, tokens[:-1], 0, pages)
    context = tokens[-HISTORY:].reshape(1, -1)
    prefill = rank.prefill_output(1, LENGTH, context, pages, int(tokens[-2]))
    return prefill, rank.decode(1, tokens[-HISTORY - 1 :], LENGTH, context, pages)


def test_stale_float32_bytes_in_dead_positions_take_decode_down_and_not_prefill() -> None:
    prefill, decode = _outputs(_rank())
    assert np.isfinite(prefill.attention).all()
    assert np.isnan(decode.attention).any()


@pytest.mark.parametrize("config", [{"inert_mask": True}, {"kv_format": "int8"}])
def test_a_masked_read_or_a_format_without_nan_survives_the_same_bytes(config: dict[str, object]) -> None:
    prefill, decode = _outputs(_rank(**config))
    assert np.isfinite(prefill.attention).all()
    assert np.isfinite(decode.attention).all()


def test_dead_positions_that_are_finite_do_not_change_the_output() -> None:
    rank, tokens = _rank(), _tokens(LENGTH)
    context, last = tokens[-HISTORY:].reshape(1, -1), tokens[-HISTORY - 1 :]
    outputs = []
    for request, filler in ((1, 0x38), (2, 0x55)):
        rank.pages[[0, 1, 2]] = filler
        rank.begin(request, None)
        rank.prefill(request, tokens[:-1], 0, [0, 1, 2])
        outputs.append(rank.decode(request, last, LENGTH - 1, context, [0, 1, 2]).attention)
    assert np.array_equal(outputs[0], outputs[1])
