"""Every oracle earns its place: the stored finds turn red when it is taken out."""

from pathlib import Path

import pytest

from kvstress.oracles.judge import ORACLES
from tests.finds.table import cases
from tests.finds.worth import found_by, run_of, unpack, worths

DEFECTS = tuple(case for case in cases() if case.kind == "defect")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The kept runs."""
    where = tmp_path_factory.mktemp("stored")
    unpack(where)
    return where


def test_every_oracle_has_a_case_that_turns_red_without_it(folder: Path) -> None:
    assert [worth.oracle for worth in worths(DEFECTS, folder) if not worth.red] == []


def test_every_oracle_has_a_case_that_it_finds_alone_or_with_one_other() -> None:
    few = {name for case in DEFECTS if len(case.found_by) <= 2 for name in case.found_by}
    assert few == {name for name, _ in ORACLES}


def test_a_stored_find_is_judged_as_it_was_live(folder: Path) -> None:
    judged = {case.case: found_by(run_of(folder, case)) for case in DEFECTS}
    wrong = {c.case: judged[c.case] for c in DEFECTS if not c.found_by <= judged[c.case] <= c.found_by | c.also}
    assert wrong == {}
