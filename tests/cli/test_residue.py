"""The residue sweep on a real server: lengths exact to the token, and the rule that a planted defect follows."""

import csv
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.running import kvstress, verdict


def _sweep(folder: Path, server: str, *more: str) -> list[dict[str, str]]:
    words = ("--workload", "residue", "--time-scale", "0.05", "--set", "repeat=1", "--set", "coverage.keys=")
    done = kvstress("run", "--server", server, *words, *more, "--out", "run", cwd=folder, seconds=400)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    with (folder / "run" / "requests.csv").open() as rows:
        return [row for row in csv.DictReader(rows) if row["phase"] == "ask"]


@pytest.mark.timeout(450)
def test_wrong_answers_by_the_tail_come_out_as_a_rule(tmp_path: Path, reference: Callable[..., str]) -> None:
    asked = _sweep(tmp_path, reference("--defect", "tail-page"), "--keep-going", "--max-steps", "146")
    assert len(asked) == 146
    assert [row["prompt_tokens"] for row in asked] == [row["planned_tokens"] for row in asked]
    found = [finding for finding in verdict(tmp_path / "run")["findings"] if finding["oracle"] == "RESIDUE"]
    assert [finding["verdict"] for finding in found] == ["FAIL"]
    assert "prompt_tokens mod 128 is 0 to 47" in found[0]["summary"] and ", 0 of " in found[0]["summary"]


@pytest.mark.timeout(450)
def test_a_healthy_server_passes(tmp_path: Path, reference: Callable[..., str]) -> None:
    assert len(_sweep(tmp_path, reference(), "--set", "blocks=1", "--max-steps", "16")) == 16
    assert verdict(tmp_path / "run")["verdict"] == "PASS"
