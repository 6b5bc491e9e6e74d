"""The committed matrix is what the rules make of what the engines were seen to offer."""

import csv

from tests.finds.matrix import MATRIX, engines, rows


def test_the_committed_matrix_says_what_the_rules_say() -> None:
    with MATRIX.open(newline="", encoding="utf-8") as file:
        kept = list(csv.DictReader(file))
    made = {(engine, workload, key): (yes, why) for engine, workload, key, yes, why in rows()}
    assert kept
    said = {(row["engine"], row["workload"], row["key"]): (row["reachable"], row["why"]) for row in kept}
    assert said.items() <= made.items(), "to renew it: python -m tests.finds.matrix"


def test_every_engine_has_keys_that_it_can_and_cannot_show_and_says_why_not() -> None:
    assert set(engines()) >= {"reference", "transformers", "llama.cpp", "vllm"}
    assert all(bool(why) is (reachable != "yes") for _, _, _, reachable, why in rows())
