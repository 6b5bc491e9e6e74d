"""The workload files that ship, and the page that describes their format."""

from pathlib import Path

import pytest

from kvstress.workload.reference import markdown
from kvstress.workload.spec import parse

FOLDER = Path(__file__).resolve().parents[2] / "workloads"
FILES = sorted(FOLDER.glob("*.toml"))


def page() -> str:
    return markdown({file.name: parse(file.read_text(), file.name) for file in FILES})


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_shipped_workload_says_first_which_bug_it_hunts(file: Path) -> None:
    assert file.read_text().startswith("# Hunts: ")
    assert parse(file.read_text(), file.name).name == file.stem


def test_the_committed_reference_is_what_the_types_say() -> None:
    assert (FOLDER / "README.md").read_text() == page(), f"to renew it: python {Path(__file__).name}"


if __name__ == "__main__":
    (FOLDER / "README.md").write_text(page())
