"""The committed matrix is what the rules make of what the engines were seen to offer."""

import csv

from tests.finds.matrix import COLUMNS, MATRIX, engines, rows


def test_the_committed_matrix_says_what_the_rules_say() -> None:
    with MATRIX.open(newline="", encoding="utf-8") as file:
        kept = list(csv.DictReader(file))
    made = {(engine, workload, key): (yes, why) for engine, workload, key, yes, why in rows()}
    assert kept
    assert {tuple(row[name] for name in COLUMNS[:3]): (row["reachable"], row["why"]) for row in kept} == made


def test_every_engine_has_keys_that_it_can_and_cannot_show_and_says_why_not() -> None:
    assert set(engines()) >= {"reference", "transformers", "llama.cpp"}
    assert all(why for _, _, _, reachable, why in rows() if reachable == "no")
