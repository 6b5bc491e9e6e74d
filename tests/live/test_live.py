"""The live job's own promises that need no engine: what it says of one that is not there, and its arithmetic."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.live.campaign import Row, closing, upper

ROOT = Path(__file__).parents[2]


def without_engines(tmp_path: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    """Run a module of the live job where no environment can be made: its cache is a file."""
    (tmp_path / "cache").touch()
    env = os.environ | {"KVSTRESS_LIVE_CACHE": str(tmp_path / "cache"), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", *words]
    return subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False, timeout=120)


def test_engines_that_cannot_be_installed_are_counted_and_end_the_job_with_125(tmp_path: Path) -> None:
    done = without_engines(tmp_path, "tests.live")
    assert done.returncode == 125, done.stderr
    assert [line.split()[2] for line in done.stdout.splitlines() if line.startswith("NOT INSTALLED")] == [
        "transformers",
        "llama.cpp",
        "vllm",
    ]
    assert done.stdout.splitlines()[-1] == "0 cases as written, 0 otherwise, 3 engines not installed"


@pytest.mark.parametrize("words", [("tests.live.serve", "vllm"), ("tests.live.campaign", "healthy", "gemma")])
def test_whoever_wants_one_engine_that_cannot_be_installed_gets_125_too(tmp_path: Path, words: tuple[str, ...]) -> None:
    done = without_engines(tmp_path, *words)
    assert done.returncode == 125, done.stderr
    assert "exit 1" in done.stdout


def test_no_alarm_in_n_runs_bounds_their_rate_as_the_rule_of_three_says() -> None:
    assert upper(0, 200) == pytest.approx(3 / 200, rel=0.02)
    assert upper(0, 1) == pytest.approx(0.95)


def test_the_bound_of_some_alarms_is_clopper_and_pearsons() -> None:
    """One-sided 95 %: 2 of 10 is table value 0.5069, and all of n bounds nothing."""
    assert upper(2, 10) == pytest.approx(0.5069, abs=1e-4)
    assert upper(3, 3) == 1.0


def test_the_closing_line_counts_what_was_judged_and_what_was_not() -> None:
    row = Row(
        engine="vllm",
        version="0",
        flags="",
        workload="mixed",
        runs=4,
        requests=80,
        oracle_runs=60,
        passed=3,
        invalid=0,
        inconclusive=0,
        alarms=0,
        broken=1,
        seconds=1.0,
    )
    said = closing([row, replace(row, runs=5, broken=0)], ["gone: no such engine"])
    assert said.startswith("0 alarms in 8 runs, 160 requests, 120 armed oracle-runs: at 95 % below 31 % of runs")
    assert said.endswith("1 without a verdict, 1 settings not started")
