"""A small sample of `make finds`: a few defects are found as it was written down, and their look-alikes are not."""

from pathlib import Path

import pytest

from kvstress.refserver.defects import DEFECTS
from tests.finds.carry import carry_out
from tests.finds.habits import HABITS
from tests.finds.table import cases, is_right, line

TABLE = {case.case: case for case in cases()}


@pytest.mark.parametrize("name", ["truncated", "truncated twin", "broken-schema", "10 framing"])
def test_a_case_comes_out_as_written_down(name: str, tmp_path: Path) -> None:
    row = carry_out(TABLE[name], 3, tmp_path)
    assert row.right, line(TABLE[name], row)


def test_every_planted_defect_and_every_twin_is_in_the_table() -> None:
    planted = [
        case.server.partition("--defect ")[2].partition(" ")[0] for case in TABLE.values() if "--defect" in case.server
    ]
    names = {text.partition(":")[0] for text in planted if "healthy" not in text}
    twins = {text.partition(":")[0] for text in planted if "healthy" in text}
    assert names == set(DEFECTS)
    assert twins == set(DEFECTS)


def test_every_habit_is_in_the_table_and_every_negative_control_has_a_habit() -> None:
    played = {case.server.removeprefix("habit ") for case in TABLE.values() if case.kind == "control"}
    assert played == set(HABITS)
    assert {int(habit.control.split()[0]) for habit in HABITS.values()} == set(range(1, 17))


def test_a_case_is_red_when_the_defect_never_showed_or_another_oracle_found_it() -> None:
    silent = TABLE["truncated"]
    assert is_right(silent, "FAIL", silent.found_by, 1)
    assert not is_right(silent, "FAIL", silent.found_by, 0)
    assert not is_right(silent, "FAIL", silent.found_by | {"STATUS"}, 1)
    assert not is_right(silent, "PASS", frozenset(), 1)
