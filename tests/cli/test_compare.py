"""`kvstress compare` from a shell: how both sides are named, and what each exit code means."""

from pathlib import Path

import pytest

from tests.cli.running import kvstress
from tests.harness.test_gate import stored


def test_both_sides_take_any_number_of_runs(tmp_path: Path) -> None:
    for name, fail_at in (("a", None), ("b", None), ("c", 3), ("d", 3)):
        stored(tmp_path / name, 8, fail_at=fail_at)
    done = kvstress("compare", "a", "b", "--with", "c", "d", "--out", "out", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("REGRESSED: first failure:")
    assert (tmp_path / "out" / "compare.html").exists()
    quiet = kvstress("compare", "a", "--with", "b", "--out", "out", "--quiet", cwd=tmp_path)
    assert quiet.stdout == "UNCHANGED: first failure: no failure on either side; " + quiet.stdout.partition("; ")[2]


@pytest.mark.parametrize("words", [("a", "--with", "b"), ("b", "--with", "a")])
def test_a_run_that_completed_nothing_is_one_sentence_and_125(tmp_path: Path, words: tuple[str, ...]) -> None:
    stored(tmp_path / "a", 2)
    stored(tmp_path / "b", 2)
    (tmp_path / "b" / "events.jsonl").write_text("")
    done = kvstress("compare", *words, "--out", "out", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (125, "")
    assert done.stderr == "kvstress: b completed no prompt, so there is nothing of it to compare\n"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("a", "b"), "--with HEAD"),
        (("a", "--with", "b", "--with", "a"), "--with HEAD"),
        (("a", "--wiht", "b"), "no such option: --wiht"),
        (("a", "--with", "nowhere"), "nowhere is not a kvstress run"),
    ],
)
def test_a_wrong_call_is_one_sentence_and_2(tmp_path: Path, words: tuple[str, ...], said: str) -> None:
    stored(tmp_path / "a", 2)
    stored(tmp_path / "b", 2)
    done = kvstress("compare", *words, "--out", "out", cwd=tmp_path)
    assert done.returncode == 2
    assert said in done.stderr and len(done.stderr.splitlines()) == 1
    assert not (tmp_path / "out").exists()
