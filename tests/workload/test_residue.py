"""The residue sweep: every pair of tails, in as few prompts as there can be, and lengths that the sizing decides."""

from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest

from kvstress.core.plan import Step
from kvstress.core.sizing import ASSUMED, Sizing
from kvstress.workload.build import plan
from kvstress.workload.residue import circuit
from kvstress.workload.spec import override, parse

FILE = Path(__file__).resolve().parents[2] / "workloads" / "residue.toml"
MEASURED = Sizing(overhead=84.0, per_unit=1.25, how="measured", block=64, pad=" the")


def steps(sizing: Sizing, **settings: str) -> list[Step]:
    spec = override(parse(FILE.read_text(), FILE.name), settings)
    return list(plan(spec, seed=3, model="m", stream=None, sizing=sizing, data=None).steps())


def tokens(sizing: Sizing, **settings: str) -> list[int]:
    return [step.requests[0].tokens or 0 for step in steps(sizing, **settings)]


@pytest.mark.parametrize("size", [1, 2, 3, 8, 13])
def test_a_circuit_takes_each_ordered_pair_once(size: int) -> None:
    pairs = Counter(pairwise(circuit(size)))
    assert pairs == Counter((i, j) for i in range(size) for j in range(size))


def test_each_tail_follows_each_at_each_number_of_blocks() -> None:
    planned = tokens(MEASURED)
    assert len(planned) == 3 * 65
    for k in range(3):
        tails = [length % 64 for length in planned[65 * k : 65 * (k + 1)]]
        assert set(tails) == {0, 1, 2, 4, 16, 32, 62, 63}
        assert len(set(pairwise(tails))) == 64
    assert min(planned[65:130]) - min(planned[:65]) == 64


def test_a_declared_block_wins_over_a_learnt_one() -> None:
    assert {length % 16 for length in tokens(MEASURED, block="16")} == {0, 1, 2, 4, 8, 14, 15}


def test_edges_come_last_with_their_neighbours() -> None:
    assert tokens(MEASURED, edges="2k,4096")[-6:] == [1999, 2000, 2001, 4095, 4096, 4097]


def test_the_sweep_is_as_long_before_anything_was_measured() -> None:
    assert len(steps(ASSUMED)) == len(steps(MEASURED)) == 195


def test_the_sizing_says_how_many_padding_words_a_prompt_has() -> None:
    padded = Sizing(overhead=84.0, per_unit=1.25, how="measured", block=64, pad=" x", pads=(0, 7))
    bare, filled = (step.requests[0].body["messages"][0]["content"] for step in steps(padded)[:2])
    assert "\nNote:\n" in bare
    assert f"\nNote:{' x' * 7}\n" in filled
    assert steps(padded) == steps(padded)
