"""Oracles that need a whole run: a server that misbehaves in one way, and what is said of it."""

import json
from pathlib import Path

from tests.cli.running import kvstress, verdict

WORKLOAD = """\
name = "codes"
hunts = "answers that have lost a part of their prompt, or hold a part of another"

[source]
kind = "speedbench"
contexts = ["300", "700"]

[[phases]]
name = "prime"
max_tokens = 24

[[phases]]
name = "warm"
max_tokens = 24

[sampling]
temperature = 0.0

[stop]
max_steps = 8
"""


def found_by(folder: Path, server: str) -> set[str]:
    (folder / "codes.toml").write_text(WORKLOAD)
    words = ("--server", f"reference {server}".strip(), "--workload", "codes.toml", "--time-scale", "0.05")
    done = kvstress("run", *words, "--out", "run", "--quiet", cwd=folder)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    findings = (folder / "run" / "findings.jsonl").read_text().splitlines()
    return {one["oracle"] for one in map(json.loads, findings)} if verdict(folder / "run")["findings"] else set()


def test_another_prompts_code_is_foreign(tmp_path: Path) -> None:
    assert found_by(tmp_path, "--defect cross-talk") == {"FOREIGN"}


def test_a_code_that_is_known_cold_and_not_warm_was_forgotten(tmp_path: Path) -> None:
    assert found_by(tmp_path, "--defect warm-drift") == {"CANARY"}


def test_a_healthy_server_is_met_with_silence(tmp_path: Path) -> None:
    assert found_by(tmp_path, "") == set()
