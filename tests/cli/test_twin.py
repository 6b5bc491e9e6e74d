"""A twin that kvstress starts: it answers cold, is judged for nothing, and is gone afterwards."""

import re
import socket
from pathlib import Path

from tests.cli.running import KVSTRESS, events, kvstress

SMALL = ("--workload", "resend", "--set", "contexts=400,800", "--max-steps", "3")


def test_a_launched_twin_answers_cold_and_leaves_with_the_run(tmp_path: Path) -> None:
    twin = f"{KVSTRESS} serve --memory-limit 40G --port {{port}}"
    words = ("--server", "reference --memory-limit 40G", "--twin-launch", twin, *SMALL, "--time-scale", "0.1")
    done = kvstress("run", *words, "--out", "run", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    cold = [event for event in events(tmp_path / "run", "request-sent") if event["phase"] == "cold-twin"]
    assert cold
    port = re.search(r"http://127\.0\.0\.1:(\d+)", (tmp_path / "run" / "twin.log").read_text())
    assert port is not None
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", int(port[1]))) != 0, "nobody listens there any more"
    assert "--twin-launch" in (tmp_path / "run" / "manifest.json").read_text()


def test_a_twin_without_a_port_of_its_own_is_a_wrong_call(tmp_path: Path) -> None:
    done = kvstress("run", "--server", "reference", "--twin-launch", "kvstress serve", cwd=tmp_path)
    assert done.returncode == 2
    assert "{port}" in done.stderr and len(done.stderr.splitlines()) == 1
