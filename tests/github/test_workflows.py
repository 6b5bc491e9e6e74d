"""The workflows are valid, and their shell steps do what they say: run here, against the reference server."""

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from kvstress.harness.inputs import shipped_workloads
from tests.cli.running import KVSTRESS
from tests.gate.repository import git, launch, repository
from tests.github.runner import ARTIFACT_URL, ROOT, Contexts, Job, evaluated, load

ACTION = ".github/actions/kvstress"
WORKFLOWS = sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / ".github" / "workflows").glob("*.yml"))
OPTIONS = "--set contexts=1k,2k\n--max-steps 6"


def job(folder: Path, **env: str) -> Job:
    """A machine with a workspace, and with kvstress installed."""
    (folder / "work").mkdir(exist_ok=True)
    (folder / "temp").mkdir(exist_ok=True)
    mine = {"PATH": f"{KVSTRESS.parent}:{os.environ['PATH']}", "GIT_CONFIG_GLOBAL": "/dev/null", "HOME": str(folder)}
    return Job(workspace=folder / "work", temp=folder / "temp", env={**mine, **env})


@pytest.mark.parametrize(
    ("schema", "paths"), [("vendor.github-workflows", WORKFLOWS), ("vendor.github-actions", [f"{ACTION}/action.yml"])]
)
def test_every_file_is_valid(schema: str, paths: Sequence[str]) -> None:
    assert paths
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", schema, *paths]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_readmes_workflow_is_valid_and_uses_inputs_that_exist(tmp_path: Path) -> None:
    (example,) = re.findall(r"^```yaml\n(.*?)^```", (ROOT / ACTION / "README.md").read_text(), re.S | re.M)
    (tmp_path / "gate.yml").write_text(example)
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.github-workflows", "gate.yml"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    used = set(re.findall(r"^ {10}([a-z-]+):", example, re.M))
    assert used and used <= load(f"{ACTION}/action.yml")["inputs"].keys()


def _jobs(path: str) -> dict[str, Any]:
    jobs: dict[str, Any] = load(path)["jobs"]
    return jobs


def _all_steps() -> list[tuple[str, dict[str, Any]]]:
    steps = [(f"{path} {name}", step) for path in WORKFLOWS for name, it in _jobs(path).items() for step in it["steps"]]
    return steps + [(ACTION, step) for step in load(f"{ACTION}/action.yml")["runs"]["steps"]]


@pytest.mark.parametrize(("where", "step"), _all_steps())
def test_no_expression_is_pasted_into_a_shell_and_every_script_parses(where: str, step: dict[str, Any]) -> None:
    if "run" not in step:
        assert step["uses"].startswith(("actions/", "./.github/")), where
        return
    # What somebody else may choose (a branch's name) would be run as shell; variables of the environment are not.
    assert "${{" not in step["run"], where
    done = subprocess.run(["bash", "-n"], input=step["run"], capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 0, done.stderr


def test_what_the_install_step_installs_is_there() -> None:
    (step,) = [step for step in load(f"{ACTION}/action.yml")["runs"]["steps"] if step["name"] == "Install kvstress"]
    source = (ROOT / ACTION / "../../..").resolve()
    assert source == ROOT and (source / "requirements.lock").is_file() and '"$SOURCE/requirements.lock"' in step["run"]


def test_the_nightly_runs_on_the_gpu_label_and_asks_for_workloads_that_exist() -> None:
    gate = _jobs(".github/workflows/nightly.yml")["gate"]
    assert gate["runs-on"] == ["self-hosted", "gpu"] and gate["strategy"]["max-parallel"] == 1
    listed = re.fullmatch(
        r"\$\{\{ fromJSON\(vars\.KVSTRESS_WORKLOADS \|\| '(.*)'\) \}\}", gate["strategy"]["matrix"]["workload"]
    )
    assert listed is not None and set(json.loads(listed[1])) <= shipped_workloads().keys()


@pytest.mark.timeout(300)
def test_the_action_passes_a_good_server_and_links_its_report(tmp_path: Path) -> None:
    here = job(tmp_path)
    (steps,) = [it["steps"] for name, it in _jobs(".github/workflows/ci.yml").items() if name == "action"]
    here.run(steps, {"github": {"sha": "1a2b3c"}})
    assert not here.failed, here.log
    assert "kvstress gate: PASS" in here.page and ARTIFACT_URL in here.page
    assert (here.uploads["kvstress"] / "junit.xml").exists() and (here.uploads["kvstress"] / "fill.png").exists()


def test_the_action_says_that_it_cannot_tell_when_the_server_does_not_start(tmp_path: Path) -> None:
    here = job(tmp_path)
    outputs = here.composite(
        ACTION, {"launch": f"{shlex.quote(sys.executable)} -c exit(3) {{port}}"}, {"github": {"sha": "1a2b"}}
    )
    assert here.failed and outputs["code"] == "125" and "exited with code 3" in here.log


def nightly(here: Job, **changed: str) -> Contexts:
    """The contexts of a night in `here`."""
    names = {"ENGINE_REPOSITORY": "o/engine", "ENGINE_BUILD": "sh build.sh", "ENGINE_LAUNCH": launch()}
    mine = {"KVSTRESS_HARDWARE": "1 toy", "KVSTRESS_HISTORY": str(here.temp / "history"), "KVSTRESS_OPTIONS": OPTIONS}
    github = {"sha": "0", "event": {"schedule": "17 1 * * 0"}, **changed}
    return {"vars": {**names, **mine}, "matrix": {"workload": "speedbench"}, "github": github}


@pytest.mark.timeout(400)
def test_a_night_that_fails_after_a_good_one_names_the_prompt_and_the_commit(tmp_path: Path) -> None:
    hashes = repository(tmp_path / "work" / "engine", ["good", "good", "bad", "bad"])
    gate = _jobs(".github/workflows/nightly.yml")["gate"]
    git(tmp_path / "work" / "engine", "checkout", "-q", hashes[0])
    first = job(tmp_path)
    assert evaluated(gate["if"], nightly(first))
    first.run(gate["steps"], nightly(first))
    assert not first.failed, first.log
    assert "first failure" in (first.uploads["kvstress-speedbench"] / "history.html").read_text()
    git(tmp_path / "work" / "engine", "checkout", "-q", hashes[3])
    second = Job(workspace=first.workspace, temp=tmp_path / "night2", env=first.env)
    contexts = nightly(first)
    second.temp.mkdir()
    second.run(gate["steps"], contexts)
    assert second.failed
    assert f"Baseline: commit {hashes[0]}" in second.page and "first failure at prompt 3" in second.page
    assert f"First bad commit: {hashes[2]}" in second.page, second.log
    report = second.uploads["kvstress-speedbench"]
    assert "prompt 3" in (report / "junit.xml").read_text()
    listed = subprocess.run(
        [KVSTRESS, "baseline", "list", str(first.temp / "history"), "--json"],
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    assert {json.loads(row)["commit"] for row in listed.stdout.splitlines()} == {hashes[0]}


GH = """#!/bin/sh
echo "$@" >> "$CALLS"
for word in "$@"; do [ -f "$word" ] && cat "$word" >> "$CALLS"; done
[ "$1 $2" = "issue list" ] && echo "$OPEN_ISSUE"
exit 0
"""


@pytest.mark.parametrize(
    ("result", "open_issue", "calls"),
    [
        ("failure", "", ["label create", "issue list", "issue create"]),
        ("failure", "7", ["label create", "issue list", "issue comment 7"]),
        ("success", "7", ["label create", "issue list", "issue comment 7", "issue close 7"]),
        ("success", "", ["label create", "issue list"]),
    ],
)
def test_one_issue_is_opened_updated_and_closed(tmp_path: Path, result: str, open_issue: str, calls: list[str]) -> None:
    program = tmp_path / "bin" / "gh"
    program.parent.mkdir()
    program.write_text(GH)
    program.chmod(0o755)
    here = job(tmp_path, CALLS=str(tmp_path / "calls"), OPEN_ISSUE=open_issue)
    here.env["PATH"] = f"{program.parent}:{here.env['PATH']}"
    page = here.workspace / "found" / "kvstress-speedbench" / "summary.md"
    page.parent.mkdir(parents=True)
    page.write_text("## FAIL\n\n![curve](fill.png)\n\nprompt 3 failed\n")
    tell = _jobs(".github/workflows/nightly.yml")["tell"]
    contexts: Contexts = {"needs": {"gate": {"result": result}}, "github": {"run_id": "99", "server_url": "https://h"}}
    assert evaluated(tell["if"], contexts)
    here.run(tell["steps"], contexts)
    assert not here.failed, here.log
    said = (tmp_path / "calls").read_text()
    made = re.findall(r"^(label create|issue (?:list|create)|issue (?:comment|close) \d+)", said, re.M)
    assert made == calls
    assert ("prompt 3 failed" in said and "actions/runs/99" in said) == bool(result == "failure" or open_issue)
    assert "![curve]" not in said
