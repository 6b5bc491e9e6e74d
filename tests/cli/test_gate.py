"""The report's own story as a gate: the fix taken out, and put in, on real servers; and what each exit code means."""

import json
import re
from pathlib import Path

import pytest

from tests.cli.running import kvstress
from tests.gate.repository import QUICK

FIXED, UNFIXED = "reference --memory-limit 37G --fix inert-mask", "reference --memory-limit 37G"


def run(folder: Path, name: str, server: str) -> None:
    done = kvstress("run", "--server", server, *QUICK.split(), "--out", name, "--quiet", cwd=folder)
    assert done.returncode == (0 if server == FIXED else 1), done.stdout + done.stderr


@pytest.mark.timeout(300)
def test_the_fix_taken_out_fails_the_gate_at_the_failing_prompt_and_put_in_it_passes(tmp_path: Path) -> None:
    for name, server in (("fixed", FIXED), ("unfixed", UNFIXED), ("again", UNFIXED)):
        run(tmp_path, name, server)
    page = {"GITHUB_STEP_SUMMARY": str(tmp_path / "page.md")}
    told = ("--allow-reference", "--out", "out")
    worse = kvstress("gate", "unfixed", "again", "--baseline", "fixed", *told, "--github", cwd=tmp_path, env=page)
    assert worse.returncode == 1, worse.stdout + worse.stderr
    assert worse.stdout.startswith("kvstress gate: FAIL; REGRESSED: ")
    assert "first failure at prompt 3, which every run of the baseline passed; the same in 2 runs" in worse.stdout
    assert re.search(r"NOT MET +first_failure >= baseline +unfixed: first failure at prompt 3", worse.stdout)
    assert "::error title=kvstress%3A NOT MET%3A first_failure >= baseline::" in worse.stderr
    assert "prepared model reported device error 6" in (tmp_path / "page.md").read_text()
    better = kvstress("gate", "fixed", "--baseline", "unfixed", *told, "--json", cwd=tmp_path)
    assert better.returncode == 0, better.stdout + better.stderr
    found = json.loads(better.stdout)
    assert found["verdict"] == "PASS" and found["compared"].startswith("IMPROVED: ")
    assert "no failure in 6 prompts with the pool full" in found["compared"]
    assert json.loads((tmp_path / "out" / "gate.json").read_text()) == json.loads(better.stdout)


@pytest.mark.timeout(300)
def test_it_builds_launches_and_judges_in_one_call_and_a_wrong_call_starts_nothing(tmp_path: Path) -> None:
    made = ("--build", "touch built", "--server", UNFIXED, *QUICK.split(), "--allow-reference", "--out", "out")
    wrong = kvstress("gate", *made, "-r", "first_failur >= 2", cwd=tmp_path)
    assert wrong.returncode == 2 and "did you mean 'first_failure'" in wrong.stderr
    assert not (tmp_path / "built").exists()
    done = kvstress("gate", *made, "-r", "first_failure >= 2", "-r", "ttft_p50 <= 1s", cwd=tmp_path)
    assert done.returncode == 125, done.stdout + done.stderr
    assert "MET          first_failure >= 2" in done.stdout and "CANNOT TELL  ttft_p50 <= 1s" in done.stdout
    assert (tmp_path / "built").exists() and (tmp_path / "out" / "run-1" / "report.html").exists()


def test_a_wrong_call_is_2_and_for_git_128(tmp_path: Path) -> None:
    assert kvstress("gate", "nothing", cwd=tmp_path).returncode == 2
    assert kvstress("gate", "nothing", "--git-bisect", cwd=tmp_path).returncode == 128
    again = kvstress("gate", "--server", "http://127.0.0.1:1", "--repeat", "2", cwd=tmp_path)
    assert again.returncode == 2 and "the first one's cache" in again.stderr
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "BISECT_LOG").touch()
    assert kvstress("gate", "nothing", cwd=tmp_path).returncode == 128


def test_github_without_a_job_is_a_wrong_call(tmp_path: Path) -> None:
    done = kvstress("gate", "nothing", "--github", cwd=tmp_path, env={"GITHUB_STEP_SUMMARY": ""})
    assert done.returncode == 2 and "GITHUB_STEP_SUMMARY" in done.stderr
