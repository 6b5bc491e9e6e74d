"""The page of a history: what is on it, where a change is marked, and that nobody's words act on it."""

from pathlib import Path

import pytest

from kvstress.core.errors import UsageError
from kvstress.harness.baseline import Accepting, Labels, accept
from kvstress.harness.history import write
from tests.harness.test_gate import stored


def history(folder: Path, firsts: list[int | None]) -> Path:
    """One commit a first failure, the oldest first; None: none in 30 steps."""
    for number, first in enumerate(firsts):
        path = stored(folder / f"run-{number}", 30, fail_at=first)
        accept(folder / "history", [path], Accepting(labels=Labels(commit=f"c{number}<b>"), failing=True))
    return folder / "history"


def test_the_commit_that_ended_the_failures_is_marked(tmp_path: Path) -> None:
    kept = history(tmp_path, [16, 14, 17, 15, None, None, None, None])
    assert write(kept, tmp_path / "page.html") == 8
    page = (tmp_path / "page.html").read_text()
    assert "first failure: changed with c4&lt;b&gt;" in page
    assert "none in 30" in page
    assert "c4<b>" not in page


def test_a_history_that_did_not_change_says_so(tmp_path: Path) -> None:
    write(history(tmp_path, [None] * 6), tmp_path / "page.html")
    assert "first failure: no change that chance would not make as well" in (tmp_path / "page.html").read_text()


def test_a_history_of_one_commit_speaks_of_no_change(tmp_path: Path) -> None:
    write(history(tmp_path, [14]), tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert "first failure: one commit, so nothing can have changed" in page
    assert "chance" not in page


def test_an_empty_history_is_a_wrong_call(tmp_path: Path) -> None:
    (tmp_path / "history").mkdir()
    with pytest.raises(UsageError, match="holds no accepted run"):
        write(tmp_path / "history", tmp_path / "page.html")
