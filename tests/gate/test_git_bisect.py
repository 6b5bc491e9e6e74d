"""`git bisect run kvstress gate --git-bisect` on a real repository: the planted commit is found, our faults are not."""

import re
import shlex
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.gate.repository import QUICK, git, launch, repository

README = Path(__file__).parent.parent.parent / "README.md"


def started(folder: Path, states: Sequence[str]) -> list[str]:
    """A repository whose first commit is known to be good and whose last to be bad."""
    hashes = repository(folder, states)
    git(folder, "bisect", "start", hashes[-1], hashes[0])
    return hashes


def gate(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    out = folder.with_name("gate")
    command = ["kvstress", "gate", "--git-bisect", "--out", str(out), "--launch", launch(), *shlex.split(QUICK)]
    return git(folder, "bisect", "run", *command, *words, check=False)


def recipe() -> list[str]:
    """The commands of the README's recipe, one a line."""
    blocks = re.findall(r"^```sh\n(.*?)^```", README.read_text(), re.S | re.M)
    (block,) = [block for block in blocks if "git bisect run" in block]
    lines: list[str] = block.splitlines()
    return lines


@pytest.mark.timeout(400)
def test_the_readmes_recipe_finds_the_planted_commit_and_skips_one_that_does_not_build(tmp_path: Path) -> None:
    folder = tmp_path / "engine"
    hashes = repository(folder, ["good", "good", "unbuildable", "good", "bad", "bad"])
    said = ""
    for line in recipe():
        words = shlex.split(line)
        places = {"BAD": hashes[-1], "GOOD": hashes[0], "make": "sh build.sh"}
        words = [launch() if word.startswith("./flare") else places.get(word, word) for word in words]
        quick = shlex.split(QUICK) if "gate" in words else []
        done = git(folder, *words[1:], *quick)
        said += done.stdout + done.stderr
    assert f"{hashes[4]} is the first bad commit" in said
    assert "the build failed: sh ended with 2" in said
    assert "NOT MET      failures == 0" in said and "prompt 3, warm: HTTP 500" in said
    assert all((folder / "reports" / "gate" / hashes[n][:12] / "run-1" / "events.jsonl").exists() for n in (3, 4))
    assert git(folder, "status", "--porcelain", "--untracked-files=no").stdout == ""


def test_a_server_that_dies_at_start_is_skipped(tmp_path: Path) -> None:
    hashes = started(tmp_path / "engine", ["good", "dead", "bad"])
    done = gate(tmp_path / "engine")
    said = done.stdout + done.stderr
    assert "There are only 'skip'ped commits left to test" in said and hashes[1] in said
    assert "no such weights" in said


def test_a_server_that_dies_at_start_is_bad_where_that_is_asked_for(tmp_path: Path) -> None:
    hashes = started(tmp_path / "engine", ["good", "dead", "dead"])
    done = gate(tmp_path / "engine", "--start-failure", "bad")
    assert done.returncode == 0 and f"{hashes[1]} is the first bad commit" in done.stdout


@pytest.mark.parametrize("words", [["--git-bisect", "--max-stepz", "3"], ["--git-bisekt"], ["--git-bisect", "-r", "x"]])
def test_a_mistyped_call_stops_git_and_blames_no_commit(tmp_path: Path, words: list[str]) -> None:
    started(tmp_path / "engine", ["good", "bad", "bad"])
    done = git(tmp_path / "engine", "bisect", "run", "kvstress", "gate", *words, check=False)
    said = done.stdout + done.stderr
    assert done.returncode != 0 and "first bad commit" not in said
    assert "exit code 128" in said
    log = git(tmp_path / "engine", "bisect", "log").stdout
    assert len(re.findall(r"^git bisect (?:good|bad|skip)", log, re.M)) == 0, log
