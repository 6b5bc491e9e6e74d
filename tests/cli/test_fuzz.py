"""Random traffic held against a second process: healthy servers pass, and a defect is found where it first showed."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.running import KVSTRESS, events, kvstress, verdict

QUICK = ("--workload", "fuzz", "--set", "longest=600", "--time-scale", "0.05")


def fuzzed(folder: Path, server: str, twin: str, *more: str) -> int:
    done = kvstress("run", "--server", server, "--twin", twin, *QUICK, *more, "--out", "run", cwd=folder)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    return done.returncode


def test_a_healthy_server_passes_and_every_answer_was_compared(tmp_path: Path, reference: Callable[..., str]) -> None:
    assert fuzzed(tmp_path, reference(), reference(), "--max-steps", "24") == 0
    assert all(verdict(tmp_path / "run")["coverage"].values())
    sent = events(tmp_path / "run", "request-sent")
    whole = {answer["request"] for answer in events(tmp_path / "run", "exchange") if answer["kind"] == "ok"}
    asked = {event["recipe"] for event in sent if event["origin"] == "step" and event["request"] in whole}
    assert asked == {event["recipe"] for event in sent if event["phase"] == "cold-twin"}
    assert {event["endpoint"] for event in sent if event["origin"] == "step"} == {
        "/v1/chat/completions",
        "/v1/completions",
    }


@pytest.mark.parametrize("defect", ["warm-drift", "tail-page"])
def test_a_defect_is_found_at_the_operation_that_the_server_s_log_names(
    tmp_path: Path, reference: Callable[..., str], defect: str
) -> None:
    log = tmp_path / "shown.jsonl"
    assert fuzzed(tmp_path, reference("--defect", defect, "--debug-log", str(log)), reference()) == 1
    told = verdict(tmp_path / "run")
    assert told["findings"][0]["oracle"] == "COLDWARM"
    sent = [event for event in events(tmp_path / "run", "request-sent") if not event["endpoint"].startswith("twin:")]
    # The server counts requests from 1, and before those of the run there were none.
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    shown = {sent[line["request"] - 1]["step"]: float(line["detail"].removeprefix("gap ")) for line in lines}
    step = told["first_failure"]["step"]
    assert step in shown
    # Where its two best tokens nearly tie, a healthy server may say the other one: that is no evidence.
    assert all(gap < 1.0 for earlier, gap in shown.items() if earlier is not None and earlier < step)


def test_a_fuzz_run_shrinks_to_the_operations_that_it_takes(tmp_path: Path, reference: Callable[..., str]) -> None:
    assert fuzzed(tmp_path, reference("--defect", "warm-drift"), reference()) == 1
    launch = f"{KVSTRESS} serve --defect warm-drift --port {{port}}"
    done = kvstress("shrink", "run", "--launch", launch, "--out", "small", cwd=tmp_path)
    assert done.returncode == 2 and "--twin" in done.stderr
    words = ("--launch", launch, "--twin", reference(), "--budget", "6", "--out", "small")
    done = kvstress("shrink", "run", *words, cwd=tmp_path)
    case = json.loads((tmp_path / "small" / "repro.json").read_text())["case"]
    assert len(case["steps"]) == 2, done.stdout
    assert all(step["label"] != "sizing" for step in case["steps"])
