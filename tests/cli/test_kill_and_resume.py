"""Kill -9 in mid-run: what was measured is there, renders, and is continued only on the same server."""

import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from tests.cli.running import KVSTRESS, events, kvstress, verdict

LIMIT = ("--memory-limit", "50G", "--fix", "inert-mask")
STEPS = 18


def _begin(url: str, folder: Path, *, until: int, signal_: int) -> int:
    """Start a run, signal it once `until` steps have ended, and return its exit code."""
    words = [str(KVSTRESS), "run", "--server", url, "--max-steps", str(STEPS), "--out", "run", "--quiet"]
    process = subprocess.Popen(words, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    path = folder / "run" / "events.jsonl"
    for _ in range(2_000):
        if path.exists() and path.read_bytes().count(b'"type":"step-ended"') >= until:
            break
        time.sleep(0.02)
    process.send_signal(signal_)
    process.communicate(timeout=60)
    return process.returncode


def test_a_killed_run_is_on_disk_and_can_be_judged_and_rendered(reference: Callable[..., str], tmp_path: Path) -> None:
    _begin(reference(*LIMIT), tmp_path, until=4, signal_=signal.SIGKILL)
    done = kvstress("judge", "run", cwd=tmp_path)
    assert done.returncode == 125
    assert "cut off after" in done.stdout
    rows = (tmp_path / "run" / "prompts.csv").read_text().splitlines()
    assert len(rows) >= 5
    assert "cut off after" in (tmp_path / "run" / "report.html").read_text()


def test_resume_continues_on_the_server_that_lived(reference: Callable[..., str], tmp_path: Path) -> None:
    url = reference(*LIMIT)
    _begin(url, tmp_path, until=4, signal_=signal.SIGKILL)
    before = len(events(tmp_path / "run", "step-ended"))
    words = ("--server", url, "--max-steps", str(STEPS), "--out", "run", "--resume")
    done = kvstress("run", *words, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    steps = [event["step"] for event in events(tmp_path / "run", "step-ended")]
    assert steps == list(range(STEPS))
    assert 4 <= before < STEPS
    assert f'"resumed_at":[{before}]' in (tmp_path / "run" / "manifest.json").read_text().replace(" ", "").replace(
        "\n", ""
    )
    assert verdict(tmp_path / "run")["steps"] == STEPS
    assert "Resumed at prompt" in (tmp_path / "run" / "report.html").read_text()
    assert not (tmp_path / "run-2").exists()


def test_resume_on_another_server_begins_again_in_a_new_run_that_names_the_old(
    reference: Callable[..., str], tmp_path: Path
) -> None:
    _begin(reference(*LIMIT), tmp_path, until=4, signal_=signal.SIGKILL)
    words = ("--server", reference(*LIMIT), "--max-steps", str(STEPS), "--out", "run", "--resume", "--quiet")
    done = kvstress("run", *words, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert [event["step"] for event in events(tmp_path / "run-2", "step-ended")] == list(range(STEPS))
    assert '"restarts_of":"run"' in (tmp_path / "run-2" / "manifest.json").read_text().replace(" ", "")
    assert not (tmp_path / "run" / "verdict.json").exists()


def test_resume_refuses_another_plan_and_says_the_old_command(reference: Callable[..., str], tmp_path: Path) -> None:
    url = reference(*LIMIT)
    _begin(url, tmp_path, until=1, signal_=signal.SIGKILL)
    done = kvstress("run", "--server", url, "--seed", "5", "--out", "run", "--resume", cwd=tmp_path)
    assert done.returncode == 2
    assert "another plan" in done.stderr and "kvstress run --server" in done.stderr


def test_an_interrupt_ends_the_run_in_good_order_with_exit_130(reference: Callable[..., str], tmp_path: Path) -> None:
    assert _begin(reference(*LIMIT), tmp_path, until=2, signal_=signal.SIGINT) == 130
    found = verdict(tmp_path / "run")
    assert (found["verdict"], found["stopped"]) == ("INCONCLUSIVE", "interrupted")
    assert (tmp_path / "run" / "report.html").is_file()


def test_killing_kvstress_leaves_no_embedded_server_behind(tmp_path: Path) -> None:
    assert _begin("reference --memory-limit 50G", tmp_path, until=1, signal_=signal.SIGKILL) == -9
    log = (tmp_path / "run" / "server.log").read_text()
    port = log.partition("http://127.0.0.1:")[2].partition(" ")[0]
    assert port.isdigit()
    for _ in range(500):
        if kvstress_cannot_reach(int(port)):
            return
        time.sleep(0.02)
    raise AssertionError(f"the embedded server still listens on {port}")


def kvstress_cannot_reach(port: int) -> bool:
    import socket

    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) != 0
