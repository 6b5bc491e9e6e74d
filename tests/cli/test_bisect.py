"""The search end to end, on real processes: found, told apart, resumed after a kill; each mistake in one sentence."""

import csv
import json
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.cli.running import KVSTRESS, kvstress, verdict

SERVER = (
    f"{shlex.quote(sys.executable)} -S {shlex.quote(str(Path(__file__).with_name('limited.py')))} {{port}} {{limit}}"
)
SIZES = ("--workload", "workload.toml")
WORKLOAD = """
name = "four"
hunts = "the third prompt"
[source]
kind = "speedbench"
contexts = [200]
[[phases]]
name = "ask"
max_tokens = 8
[stop]
max_steps = 4
[oracles]
arm = ["STATUS", "STREAM"]
[aside]
when = "after"
max_requests = 1
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "workload.toml").write_text(WORKLOAD)
    return tmp_path


def bisect(folder: Path, command: str, *words: str, **how: Any) -> subprocess.CompletedProcess[str]:
    return kvstress("bisect", "--launch", command, *SIZES, "--out", "search", *words, cwd=folder, **how)


def found(folder: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((folder / "search" / "bisect.json").read_text())
    return content


RANGE = ("--low", "1", "--high", "33")


def test_the_boundary_and_the_refusals_are_found_and_told_apart(folder: Path) -> None:
    done = bisect(folder, f"{SERVER} refuses-below 5 fails-below 21", *RANGE)
    assert done.returncode == 0, done.stdout + done.stderr
    got = found(folder)
    assert got["boundary"] == {"failing": "20", "passing": "21", "confidence": None}
    assert (got["refused_below"], got["refused_above"], got["exposure"]) == ("5", None, 4)
    assert "fails within 4 steps below 21: 20 FAILS at prompt 2" in done.stdout
    assert "refuses to start at 4 and starts at 5" in done.stdout
    refused = [probe for probe in got["probes"] if probe["outcome"] == "REFUSED TO START"]
    assert all(probe["launches"] == 2 and "no room for the pool" in probe["why"] for probe in refused)
    failing = [probe for probe in got["probes"] if probe["outcome"] == "FAILS"]
    assert all(probe["first_failure"] == 2 and "out of pages" in probe["why"] for probe in failing)


def test_each_probe_is_a_run_of_its_own_and_the_page_links_it(folder: Path) -> None:
    bisect(folder, f"{SERVER} fails-below 3", "--low", "1", "--high", "5", "--quiet")
    probes = found(folder)["probes"]
    page = (folder / "search" / "bisect.html").read_text()
    for probe in probes:
        run = folder / "search" / "probes" / probe["run"]
        assert verdict(run)["verdict"] == ("FAIL" if probe["outcome"] == "FAILS" else "PASS")
        assert (run / "server.log").exists()
        assert f'href="probes/{probe["run"]}/report.html"' in page
        assert f"{{port}} {probe['value']} fails-below 3" in json.loads((run / "manifest.json").read_text())["command"]
    assert "<svg" in page and "2 fails, 3 passes" in page
    with (folder / "search" / "bisect.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["value"] for row in rows] == sorted((probe["value"] for probe in probes), key=int)
    assert {row["first_failure"] for row in rows if row["outcome"] == "SURVIVED"} == {""}


@pytest.mark.parametrize(
    ("behaviour", "sentence"),
    [("fails-below 99", "fails at every limit tried within 4 steps"), ("", "no failure found within 4 steps")],
)
def test_without_both_ends_no_boundary_is_made_up(folder: Path, behaviour: str, sentence: str) -> None:
    done = bisect(folder, f"{SERVER} {behaviour}", *RANGE)
    assert done.returncode == 0, done.stderr
    assert sentence in done.stdout
    assert found(folder)["boundary"] is None


def test_fail_if_boundary_makes_failures_an_exit_code(folder: Path) -> None:
    words = ("--low", "1", "--high", "2", "--fail-if-boundary", "--quiet")
    assert bisect(folder, f"{SERVER} fails-below 2", *words).returncode == 1
    assert bisect(folder, SERVER, *words, "--overwrite").returncode == 0


def test_on_the_reference_server_survived_and_not_exercised_are_told_apart(tmp_path: Path) -> None:
    server = "kvstress serve --memory-limit {memory_limit} --fix zero-on-release --port {port}"
    words = ("--low", "37G", "--high", "60G", "--resolution", "23G", "--set", "contexts=4k", "--max-steps", "20")
    done = kvstress("bisect", "--launch", server, *words, "--out", "search", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "no failure found within 20 steps; survived at 37G; not exercised at 60G" in done.stdout
    probes = found(tmp_path)["probes"]
    assert [probe["outcome"] for probe in probes] == ["SURVIVED", "NOT EXERCISED"]
    assert probes[0]["pool_fill"] is not None and probes[1]["pool_fill"] is None


def test_a_finished_search_answers_without_a_launch_and_a_wider_one_goes_on(folder: Path) -> None:
    command = f"{SERVER} fails-below 3"
    first = bisect(folder, command, "--low", "1", "--high", "5")
    made = found(folder)["probes"]
    again = bisect(folder, command, "--low", "1", "--high", "5")
    assert again.returncode == first.returncode == 0
    assert "probe " not in again.stdout.replace("each probe", "").replace("a probe", "")
    assert found(folder)["probes"] == made
    wider = bisect(folder, command, "--low", "1", "--high", "9")
    assert wider.returncode == 0
    assert len(found(folder)["probes"]) == len(made) + 1, "only the new end was missing"


def test_another_search_in_the_same_place_is_refused(folder: Path) -> None:
    bisect(folder, f"{SERVER} fails-below 9", "--low", "1", "--high", "3", "--quiet")
    done = bisect(folder, f"{SERVER} fails-below 8", "--low", "1", "--high", "3")
    assert done.returncode == 2
    assert "holds another search" in done.stderr and "--overwrite" in done.stderr


def marked(mark: str) -> list[int]:
    """The living processes that have `mark` in their environment."""
    pids = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            alive = (entry / "stat").read_bytes().rpartition(b")")[2].split()[0] not in (b"Z", b"X")
            if alive and mark.encode() in (entry / "environ").read_bytes():
                pids.append(int(entry.name))
        except OSError:
            continue
    return pids


def wait_until(true: Any, seconds: float = 60.0) -> bool:
    for _ in range(round(seconds / 0.05)):
        if true():
            return True
        time.sleep(0.05)
    return bool(true())


def test_kill_9_in_the_middle_of_a_probe_leaves_nothing_and_the_same_command_goes_on(folder: Path) -> None:
    command = f"{SERVER} fails-below 9 flag {folder / 'go'}"
    words = ["bisect", "--launch", command, *SIZES, "--out", "search", "--low", "1", "--high", "17"]
    mark = f"mark-{os.getpid()}-{time.monotonic_ns()}"
    env = {**os.environ, "KVSTRESS_TEST_MARK": mark}
    (folder / "go").touch()
    with subprocess.Popen([KVSTRESS, *words], cwd=folder, env=env, stdout=subprocess.DEVNULL) as process:
        assert wait_until(lambda: (folder / "search" / "bisect.json").exists())
        (folder / "go").unlink()
        # Now a probe hangs in its third prompt: kvstress, supervisor, server and the worker that left its group.
        before = found(folder)["probes"]
        assert wait_until(lambda: len(marked(mark)) >= 4)
        process.kill()
    assert wait_until(lambda: marked(mark) == [])
    (folder / "go").touch()
    done = kvstress(*words, cwd=folder)
    assert done.returncode == 0, done.stderr
    after = found(folder)
    assert after["boundary"] == {"failing": "8", "passing": "9", "confidence": None}
    assert after["probes"][: len(before)] == before, "the stored probes were not made again"


def test_an_interrupted_search_keeps_its_probes_and_says_how_to_go_on(folder: Path) -> None:
    command = f"{SERVER} fails-below 9 flag {folder / 'go'}"
    words = ["bisect", "--launch", command, *SIZES, "--out", "search", "--low", "1", "--high", "17"]
    (folder / "go").touch()
    with subprocess.Popen(
        [KVSTRESS, *words], cwd=folder, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as it:
        assert wait_until(lambda: (folder / "search" / "bisect.json").exists())
        (folder / "go").unlink()
        assert wait_until(lambda: any((folder / "search" / "probes").glob("*/events.jsonl")))
        time.sleep(1.0)
        it.send_signal(signal.SIGINT)
        _, errors = it.communicate(timeout=60)
    assert it.returncode == 130
    assert "Traceback" not in errors
    assert found(folder)["probes"]


def test_a_dry_run_prints_the_plan_and_launches_nothing(folder: Path) -> None:
    command = "kvstress serve --memory-limit {limit} --port {port}"
    done = bisect(folder, command, "--low", "40G", "--high", "96G", "--dry-run")
    assert done.returncode == 0
    assert "from 40G to 96G at 1G (57 values)" in done.stdout
    assert "at most 8 launches" in done.stdout
    assert not (folder / "search").exists()


def test_a_budget_of_launches_is_kept_and_what_is_open_is_said(folder: Path) -> None:
    done = bisect(folder, f"{SERVER} fails-below 9", *RANGE, "--budget", "3")
    assert done.returncode == 0, done.stderr
    got = found(folder)
    assert len(got["probes"]) == got["launches"] == 3
    assert got["boundary"] == {"failing": "1", "passing": "17", "confidence": None}
    assert "what lies between the two was not judged" in done.stdout


def test_a_command_looks_at_the_server_while_it_is_still_up(folder: Path) -> None:
    look = shlex.join([sys.executable, "-c", "import sys, urllib.request as u; print(u.urlopen(sys.argv[1]).status)"])
    words = ("--low", "1", "--high", "2", "--on-failure", f"{look} {{url}}/v1/models", "--quiet")
    bisect(folder, f"{SERVER} fails-below 2", *words)
    assert (folder / "search" / "probes" / "1" / "on-failure.txt").read_text() == "200\n[exit code 0]\n"
    assert not (folder / "search" / "probes" / "2" / "on-failure.txt").exists()


def test_a_flaky_search_gives_an_interval_with_its_confidence(folder: Path) -> None:
    done = bisect(folder, f"{SERVER} fails-below 7", "--low", "1", "--high", "12", "--repeats", "4", "--quiet")
    assert done.returncode == 0, done.stderr
    boundary = found(folder)["boundary"]
    assert int(boundary["failing"]) <= 6 < int(boundary["passing"])
    assert boundary["confidence"] >= 0.95
    assert "% sure" in done.stdout


@pytest.mark.parametrize(
    ("command", "words", "sentence"),
    [
        ("no-such-engine --limit {limit} --port {port}", (), "cannot start no-such-engine: "),
        (
            f"{SERVER} refuses-below 99",
            (),
            "refused to start at every limit tried: the server (python) exited with code 3 before it was ready; its "
            "last log lines: no room for the pool in 2",
        ),
        (f"{SERVER} mute", ("--ready-timeout", "2s"), "it listens on port "),
        (
            "kvstress serve --memory-limit {limit} --port {port}",
            ("--knob-format", "{value}Q"),
            "is not a number with K, M, G or T",
        ),
    ],
    ids=["no such command", "exits at once", "never answers", "knob rejected"],
)
def test_a_command_that_cannot_serve_is_named_with_its_last_words(
    folder: Path, command: str, words: tuple[str, ...], sentence: str
) -> None:
    done = bisect(folder, command, "--low", "1", "--high", "2", *words)
    assert done.returncode == 125
    assert sentence in done.stdout + done.stderr
    assert "Traceback" not in done.stderr


def test_a_server_that_takes_its_port_late_is_awaited(folder: Path) -> None:
    done = bisect(folder, f"{SERVER} late 1.5", "--low", "1", "--high", "2", "--quiet")
    assert done.returncode == 0
    assert "no failure found" in done.stdout


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--launch", "serve --port {port}"), "has no placeholder for the knob"),
        (("--launch", "serve {limit}"), "the command never uses {port}"),
        (("--launch", "serve {port} {a} {b}"), "the placeholders {a} and {b}: name the one to search with --knob"),
        (("--launch", "serve {port} {a} {b}", "--knob", "a"), "a placeholder {b} but no value for it"),
        (("--launch", "serve {port} {a}", "--knob", "c"), "has no placeholder {c} for --knob c (it has {a})"),
        (("--launch", "serve {port} {a}", "--value", "m=x"), "the command never uses {m}"),
        (("--launch", "serve {port} {a}", "--high", "4"), "--low 40G is a memory size and --high 4 is a plain number"),
        (("--launch", "serve {port} {a}", "--high", "30G"), "--low 40G is not below --high 30G"),
        (("--launch", "serve {port} {a}", "--q", "1.5"), "no probability between 0 and 1"),
        (("--launch", "serve {port} {a}", "--env", "sk-1"), "expected NAME=VALUE"),
        ((), "no server named"),
        (("--preset", "vlm"), "no preset named 'vlm': there are flare, "),
        (("--preset", "vllm", "--launch", "serve"), "both --launch and --preset"),
    ],
)
def test_a_wrong_call_is_one_sentence_and_launches_nothing(
    tmp_path: Path, words: tuple[str, ...], sentence: str
) -> None:
    ends = ("--low", "40G", *(() if "--high" in words else ("--high", "96G")))
    done = kvstress("bisect", *ends, *words, "--out", "search", cwd=tmp_path)
    assert done.returncode == 2, done.stdout + done.stderr
    assert sentence in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert not (tmp_path / "search").exists()


def test_a_preset_is_searched_by_its_own_knob(tmp_path: Path) -> None:
    words = ("--preset", "vllm", "--value", "model=tiny", "--low", "64M", "--high", "1G", "--resolution", "64M")
    done = kvstress("bisect", *words, "--dry-run", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "search kv_cache_memory_bytes from 64M to 1024M at 64M (16 values)" in done.stdout
    assert "vllm serve tiny" in done.stdout
