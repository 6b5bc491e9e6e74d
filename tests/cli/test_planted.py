"""Oracles that need a whole run: a server that misbehaves in one way, and what is said of it."""

import json
from collections.abc import Callable
from pathlib import Path

from tests.cli.running import events, kvstress, verdict

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


def found_by(folder: Path, server: str, *more: str, workload: str = WORKLOAD) -> set[str]:
    (folder / "codes.toml").write_text(workload)
    words = ("--server", f"reference {server}".strip(), "--workload", "codes.toml", "--time-scale", "0.05")
    done = kvstress("run", *words, *more, "--out", "run", "--quiet", cwd=folder)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    findings = [json.loads(line) for line in (folder / "run" / "findings.jsonl").read_text().splitlines()]
    assert verdict(folder / "run")["verdict"] == ("FAIL" if done.returncode else "PASS")
    return {one["oracle"] for one in findings if one["verdict"] == "FAIL"}


def test_another_prompts_code_is_foreign(tmp_path: Path) -> None:
    assert found_by(tmp_path, "--defect cross-talk") == {"FOREIGN"}


def test_a_code_that_is_known_cold_and_not_warm_was_forgotten(tmp_path: Path) -> None:
    assert found_by(tmp_path, "--defect warm-drift") == {"CANARY"}


LOGPROBS = ("--set", "facts=false", "--set", "logprobs=3", "--set", "phases.prime.max_tokens=1", "--set", "max_steps=5")


def test_a_token_that_differs_warm_is_found_against_a_salted_answer(tmp_path: Path) -> None:
    assert found_by(tmp_path, "--defect warm-drift", *LOGPROBS, "--set", "aside.cold=5") == {"COLDWARM"}


def test_a_twin_is_asked_what_the_traffic_asked(tmp_path: Path, reference: Callable[..., str]) -> None:
    twin = reference()
    assert found_by(tmp_path, "", *LOGPROBS, "--twin", twin) == set()
    asked = [event["endpoint"] for event in events(tmp_path / "run", "request-sent") if event["phase"] == "cold-twin"]
    assert asked == ["twin:/v1/chat/completions"] * 8
    assert "a second process" in (tmp_path / "run" / "report.html").read_text()


def test_a_twin_that_is_not_there_is_said_before_anything_is_sent(
    tmp_path: Path, reference: Callable[..., str]
) -> None:
    server = reference()
    words = ("--server", server, "--max-steps", "2", "--out", "run")
    done = kvstress("run", *words, "--twin", "http://127.0.0.1:9", cwd=tmp_path)
    assert done.returncode == 125 and "127.0.0.1:9" in done.stderr
    done = kvstress("run", *words, "--twin", server, cwd=tmp_path)
    assert done.returncode == 2 and "--twin" in done.stderr


THREE = """
[[phases]]
name = "streamed"
max_tokens = 24
stream = true

[[phases]]
name = "after"
max_tokens = 24
"""


def test_a_character_that_is_lost_only_in_streams_is_found(tmp_path: Path) -> None:
    assert found_by(tmp_path, "--defect utf8-split:every=1", workload=WORKLOAD + THREE) == {"STREAMEQ"}


def test_a_healthy_server_is_met_with_silence(tmp_path: Path) -> None:
    assert found_by(tmp_path, "", workload=WORKLOAD + THREE) == set()
