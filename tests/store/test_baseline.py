"""The history of accepted runs: plain files, the newest commit of a key found, old ones pruned."""

from pathlib import Path

import pytest

from kvstress.core.errors import UsageError
from kvstress.store import baseline
from kvstress.store.baseline import Entry, Key

NIGHTLY = Key(workload="speedbench", limit="50G", hardware="h200")


def entry(commit: str, accepted: str, *, run: str = "r1", key: Key = NIGHTLY) -> Entry:
    facts = {"steps": 143}
    return Entry(key=key, commit=commit, run=run, accepted=accepted, verdict="PASS", embedded=False, facts=facts)


def test_an_entry_is_one_file_that_reads_back_the_same(tmp_path: Path) -> None:
    given = entry("abc123", "2026-01-01")
    path = baseline.add(tmp_path, given)
    assert path.relative_to(tmp_path).as_posix() == "speedbench/50G/h200/abc123/r1.json"
    assert baseline.read(path) == given
    baseline.add(tmp_path, given)
    assert len(list(baseline.entries(tmp_path))) == 1


def test_a_label_never_leaves_the_history(tmp_path: Path) -> None:
    wild = Key(workload="../../etc", limit="50 G/x", hardware="")
    path = baseline.add(tmp_path / "history", entry("..", "2026-01-01", run="/tmp/r", key=wild))
    assert path.resolve().is_relative_to((tmp_path / "history").resolve())
    assert baseline.read(path).key == wild


def test_the_baseline_is_every_run_of_the_commit_accepted_last(tmp_path: Path) -> None:
    for given in (
        entry("old", "2026-01-01"),
        entry("new", "2026-01-03"),
        entry("new", "2026-01-04", run="r2"),
        entry("elsewhere", "2026-01-05", key=Key(workload="speedbench", limit="94G", hardware="h200")),
    ):
        baseline.add(tmp_path, given)
    assert [found.run for found in baseline.newest(tmp_path, NIGHTLY)] == ["r1", "r2"]
    assert [found.commit for found in baseline.newest(tmp_path, NIGHTLY, but="new")] == ["old"]
    only = Key(workload="speedbench", limit="94G", hardware="h200")
    assert [found.commit for found in baseline.newest(tmp_path, only, but="elsewhere")] == ["elsewhere"]
    assert baseline.newest(tmp_path, Key(workload="ramp", limit="50G", hardware="h200")) == ()


def test_pruning_keeps_the_last_commits_of_each_key_and_whatever_is_not_ours(tmp_path: Path) -> None:
    for number in range(4):
        baseline.add(tmp_path, entry(f"c{number}", f"2026-01-0{number + 1}"))
    baseline.add(tmp_path, entry("c0", "2026-01-01", key=Key(workload="ramp", limit="50G", hardware="h200")))
    (tmp_path / "README").write_text("ours")
    for path in baseline.prunable(tmp_path, 2):
        baseline.remove(tmp_path, path)
    left = sorted(f"{found.key.workload} {found.commit}" for _, found in baseline.entries(tmp_path))
    assert left == ["ramp c0", "speedbench c2", "speedbench c3"]
    assert (tmp_path / "README").exists() and not (tmp_path / "speedbench" / "50G" / "h200" / "c0").exists()


@pytest.mark.parametrize("content", ["", "{}", "[", '{"kind": 3}', "\x00"])
def test_a_file_that_is_no_entry_is_refused_by_name(tmp_path: Path, content: str) -> None:
    path = tmp_path / "w" / "l" / "h" / "c" / "r.json"
    path.parent.mkdir(parents=True)
    path.write_text(content)
    with pytest.raises(UsageError, match=r"r\.json is no baseline"):
        list(baseline.entries(tmp_path))


def test_a_history_that_is_not_there_says_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="baseline add"):
        list(baseline.entries(tmp_path / "none"))
