"""Shrink and replay on small real servers: what is left is what breaks, and the script needs no kvstress."""

import json
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cli.running import kvstress

BREAKING = Path(__file__).with_name("breaking.py")
# Ten prompts of 300 tokens each, sent twice: enough to fill the pool, and little to send.
SHORT = ("--workload", "speedbench", "--set", "contexts=300", "--max-steps", "10", "--no-asides")


KNOB = ("--knob", "pool", "--value", "pool=900", "--resolution", "100")


def launch(*words: str) -> str:
    return f"{sys.executable} -S {BREAKING} {{port}} {' '.join(words)}"


def failed(folder: Path, *words: str) -> Path:
    found = kvstress("run", "--launch", launch(*words), *SHORT, "--out", folder / "run", "-q", cwd=folder)
    assert found.returncode == 1, found.stderr
    return folder / "run"


def shrink(run: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return kvstress("shrink", run, "--out", run.with_name("small"), *words, cwd=run.parent)


@contextmanager
def serving(*words: str) -> Iterator[str]:
    command = [sys.executable, "-S", str(BREAKING), "0", *words]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield process.stdout.readline().strip()
    finally:
        process.terminate()
        process.wait(20)
        process.stdout.close()


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The shrunk run of a server that breaks on every resend, for all the tests that only look at it."""
    run = failed(tmp_path_factory.mktemp("shrunk"), "pool", "0")
    found = shrink(run, "--launch", launch("pool", "0"))
    assert found.returncode == 0, found.stdout + found.stderr
    return run.with_name("small")


def script(small: Path, url: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-I", "-S", str(small / "repro.py"), url]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_the_reproducer_is_smaller_than_the_run_and_says_by_how_much(small: Path) -> None:
    found = json.loads((small / "repro.json").read_text())
    assert (found["before"]["prompts"], found["before"]["requests"]) == (2, 6)
    assert (found["after"]["prompts"], found["after"]["requests"]) == (1, 2)
    assert found["after"]["text"] <= 12
    assert found["failed"] == found["probes"] >= 3
    assert found["failure"]["words"] == "the page table is corrupt (request 123456789)"


def test_the_script_needs_only_python_and_tells_a_broken_server_from_a_mended_one(small: Path) -> None:
    with serving("pool", "0") as url:
        broken = script(small, url)
    assert broken.returncode == 1, broken.stdout + broken.stderr
    assert "STILL FAILS" in broken.stdout
    assert "the page table is corrupt" in broken.stdout
    with serving("pool", "0", "fixed") as url:
        mended = script(small, url)
    assert mended.returncode == 0, mended.stdout + mended.stderr
    with serving("pool", "0", "other") as url:
        other = script(small, url)
    assert (other.returncode, "FAILS DIFFERENTLY" in other.stdout) == (1, True)


def test_the_script_cannot_tell_without_a_server(small: Path) -> None:
    command = [sys.executable, "-I", "-S", str(small / "repro.py"), "http://127.0.0.1:9", "--wait", "0.3"]
    found = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert found.returncode == 125
    assert "CANNOT TELL" in found.stdout


@pytest.mark.parametrize(
    ("words", "answer", "code"),
    [
        (("pool", "0"), "STILL FAILS", 1),
        (("pool", "0", "fixed"), "FIXED", 0),
        (("pool", "0", "refuses-below", "1000"), "CANNOT TELL", 125),
    ],
)
def test_replay_gives_its_answer_and_the_exit_code_of_run(
    small: Path, tmp_path: Path, words: tuple[str, ...], answer: str, code: int
) -> None:
    found = kvstress("replay", small, "--launch", launch(*words), "--out", tmp_path / "again", cwd=tmp_path)
    assert found.returncode == code, found.stdout + found.stderr
    assert answer in found.stdout.splitlines()


def test_replay_works_on_a_server_that_runs(small: Path, tmp_path: Path) -> None:
    with serving("pool", "0") as url:
        found = kvstress("replay", small, "--server", url, "--out", tmp_path / "again", cwd=tmp_path)
    assert found.returncode == 1, found.stdout + found.stderr
    assert "STILL FAILS" in found.stdout


def test_the_issue_has_steps_words_and_what_was_ruled_out(small: Path) -> None:
    text = (small / "ISSUE.md").read_text()
    for part in ("the page table is corrupt", "## Steps", "## Environment", "## First failures", "repro.py", "STREAM"):
        assert part in text
    assert str(small.parent) not in (small / "repro.py").read_text()


def test_a_search_called_again_launches_nothing_and_says_the_same(small: Path) -> None:
    before = (small / "repro.json").read_bytes()
    made = len(list((small / "probes").iterdir()))
    again = shrink(small.with_name("run"), "--launch", launch("pool", "0"))
    assert again.returncode == 0
    assert len(list((small / "probes").iterdir())) == made
    assert json.loads((small / "repro.json").read_bytes())["case"] == json.loads(before)["case"]


def test_a_bound_keeps_the_best_so_far_which_has_a_smaller_pool_and_the_same_command_goes_on(tmp_path: Path) -> None:
    run = failed(tmp_path, "pool", "900")
    how = ("--launch", launch("pool", "{pool}"), *KNOB)
    cut = shrink(run, *how, "--budget", "5")
    assert cut.returncode == 125
    assert "the bound of 5 launches was reached" in cut.stdout
    kept = json.loads((tmp_path / "small" / "repro.json").read_text())
    assert int(kept["facts"]["value"]) < 900
    assert kept["after"]["prompts"] < kept["before"]["prompts"]
    on = shrink(run, *how, "--budget", "6", "-q")
    assert "6 launches" in on.stdout


def test_a_run_that_did_not_fail_is_refused_in_a_sentence(tmp_path: Path) -> None:
    kvstress("run", "--launch", launch("fixed"), *SHORT, "--out", tmp_path / "run", "-q", cwd=tmp_path)
    found = shrink(tmp_path / "run", "--launch", launch("fixed"))
    assert found.returncode == 2
    assert "did not fail" in found.stderr


def test_a_server_that_no_longer_fails_and_one_that_does_not_start_are_told_apart(tmp_path: Path) -> None:
    run = failed(tmp_path, "pool", "900")
    mended = shrink(run, "--launch", launch("pool", "900", "fixed"))
    assert mended.returncode == 125
    assert "no longer fails as it did (0 of 8 probes)" in mended.stderr
    dead = shrink(run, "--launch", launch("pool", "900", "refuses-below", "1000"), "--overwrite")
    assert dead.returncode == 125
    assert "could not be repeated" in dead.stderr


def test_a_url_without_a_reset_is_refused(tmp_path: Path) -> None:
    found = shrink(failed(tmp_path, "pool", "900"), "--server", "http://127.0.0.1:9")
    assert found.returncode == 2
    assert "--reset" in found.stderr


def test_a_prompt_whose_text_is_missing_is_named(tmp_path: Path) -> None:
    run = failed(tmp_path, "pool", "900")
    lines = (run / "events.jsonl").read_text().splitlines()
    changed = [line.replace('"body_sha256":"', '"body_sha256":"00') if '"s0.prime"' in line else line for line in lines]
    (run / "events.jsonl").write_text("\n".join(changed) + "\n")
    found = shrink(run, "--launch", launch("pool", "900"))
    assert found.returncode == 125
    assert "the text of request s0.prime is missing from the record" in found.stderr


def test_a_damaged_reproducer_and_a_missing_one_are_named(tmp_path: Path) -> None:
    assert "is no reproducer" in kvstress("replay", tmp_path, "--server", "reference", cwd=tmp_path).stderr
    (tmp_path / "repro.json").write_text("{")
    assert "is damaged" in kvstress("replay", tmp_path, "--server", "reference", cwd=tmp_path).stderr


def test_one_death_that_is_told_in_two_ways_is_one_failure(tmp_path: Path) -> None:
    turning = ("pool", "0", "starts", str(tmp_path / "starts"), "turns", "2")
    found = shrink(failed(tmp_path, *turning), "--launch", launch(*turning))
    assert found.returncode == 0, found.stdout + found.stderr
    assert "failed at the same place in other words" in found.stdout
    kept = json.loads((tmp_path / "small" / "repro.json").read_text())
    assert (kept["after"]["prompts"], kept["after"]["requests"]) == (1, 2)
    assert kept["failed"] == kept["probes"]
    assert sorted([kept["failure"]["signature"], *kept["failure"]["also"]]) == [
        "STATUS:server-error:500:the page table is corrupt (request #)",
        "STATUS:server-error:503:the worker is dead",
    ]
    for count in ("0", "1"):
        (tmp_path / "starts").write_text(count)
        with serving(*turning) as url:
            assert script(tmp_path / "small", url).returncode == 1


def test_a_launch_that_dies_in_mid_search_leaves_the_best_so_far(tmp_path: Path) -> None:
    run = failed(tmp_path, "pool", "900")
    dying = launch("pool", "{pool}", "starts", str(tmp_path / "starts"), "most", "9")
    found = shrink(run, "--launch", dying, *KNOB)
    assert found.returncode == 125
    assert "3 probes in a row could not be judged" in found.stdout
    assert "the best so far is kept" in found.stdout
    kept = json.loads((tmp_path / "small" / "repro.json").read_text())
    assert kept["after"]["prompts"] < kept["before"]["prompts"]


def test_a_server_at_a_url_is_made_fresh_by_the_reset_command(tmp_path: Path) -> None:
    with serving("pool", "900") as url:
        found = kvstress("run", "--server", url, *SHORT, "--out", tmp_path / "run", "-q", cwd=tmp_path)
        assert found.returncode == 1, found.stderr
        post = f"import urllib.request as r; r.urlopen(r.Request('{url}/reset', data=b''))"
        found = shrink(tmp_path / "run", "--server", url, "--reset", shlex.join([sys.executable, "-c", post]))
        assert found.returncode == 0, found.stdout + found.stderr
        kept = json.loads((tmp_path / "small" / "repro.json").read_text())
        assert kept["after"]["requests"] < kept["before"]["requests"]
        broken = shrink(tmp_path / "run", "--server", url, "--reset", "false", "--out", str(tmp_path / "other"))
    assert broken.returncode == 125
    assert "--reset false ended with exit code 1" in broken.stderr


def test_a_server_that_fails_at_every_request_shrinks_to_one(tmp_path: Path) -> None:
    found = shrink(failed(tmp_path, "pool", "0"), "--launch", launch("word", "content"))
    assert found.returncode == 0, found.stdout + found.stderr
    kept = json.loads((tmp_path / "small" / "repro.json").read_text())
    assert (kept["after"]["prompts"], kept["after"]["requests"]) == (1, 1)
    assert "It fails at the first request" in (tmp_path / "small" / "ISSUE.md").read_text()


def test_private_text_is_written_only_where_that_was_asked_for(tmp_path: Path) -> None:
    rows = [{"messages": [{"role": "user", "content": f"confidential mark-{n}- " + "word " * 300}]} for n in range(10)]
    text = "".join(
        json.dumps({"question_id": str(n), "category": "low_entropy", **row}) + "\n" for n, row in enumerate(rows)
    )
    (tmp_path / "throughput_1k.jsonl").write_text(text)
    words = ("--workload", "speedbench", "--set", "contexts=1k", "--data", tmp_path, "--max-steps", "6", "--no-asides")
    done = kvstress("run", "--launch", launch("word", "mark-3-"), *words, "--out", "run", "-q", cwd=tmp_path)
    assert done.returncode == 1, done.stderr
    how = ("--launch", launch("word", "mark-3-"), "--data", str(tmp_path))
    hidden = shrink(tmp_path / "run", *how)
    assert hidden.returncode == 0, hidden.stdout + hidden.stderr
    for name in ("repro.json", "repro.py", "ISSUE.md"):
        assert "confidential" not in (tmp_path / "small" / name).read_text()
    with serving("word", "mark-3-") as url:
        assert script(tmp_path / "small", url).returncode == 125
        again = kvstress("replay", tmp_path / "small", "--server", url, "--out", tmp_path / "again", cwd=tmp_path)
        assert (again.returncode, "CANNOT TELL" in again.stdout) == (125, True)
        shown = shrink(tmp_path / "run", *how, "--keep-text", "--overwrite")
        assert shown.returncode == 0, shown.stdout + shown.stderr
        assert script(tmp_path / "small", url).returncode == 1


@pytest.mark.parametrize(
    ("breaks", "words"),
    [
        (
            ("extends", "1"),
            ("--workload", "agents", "--set", "system=200", "--set", "observation=100", "--set", "sessions=3"),
        ),
        (("pool", "0"), ("--workload", "abort", "--set", "contexts=300", "--set", "aside.watch=1s")),
        (("pool", "0"), ("--workload", "herd", "--set", "contexts=300")),
    ],
    ids=["sessions", "cancellations", "waves"],
)
def test_traffic_of_every_shape_shrinks_and_replays(
    breaks: tuple[str, ...], words: tuple[str, ...], tmp_path: Path
) -> None:
    done = kvstress(
        "run",
        "--launch",
        launch(*breaks),
        *words,
        "--max-steps",
        "8",
        "--no-asides",
        "--out",
        "run",
        "-q",
        cwd=tmp_path,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    found = shrink(tmp_path / "run", "--launch", launch(*breaks))
    assert found.returncode == 0, found.stdout + found.stderr
    kept = json.loads((tmp_path / "small" / "repro.json").read_text())
    assert kept["after"]["requests"] <= 2 < kept["before"]["requests"]
    with serving(*breaks) as url:
        assert script(tmp_path / "small", url).returncode == 1


def test_a_search_that_was_cut_off_leaves_a_reproducer_that_can_be_replayed(tmp_path: Path) -> None:
    """The best so far then still has requests of no step, which were sent to learn how prompts are counted."""
    cut = shrink(failed(tmp_path, "pool", "900"), "--launch", launch("pool", "900"), "--budget", "3")
    assert cut.returncode == 125
    kept = json.loads((tmp_path / "small" / "repro.json").read_text())
    assert kept["case"]["steps"][0]["label"] == "sizing"
    with serving("pool", "900") as url:
        found = kvstress("replay", tmp_path / "small", "--server", url, "--out", tmp_path / "again", cwd=tmp_path)
    assert (found.returncode, "STILL FAILS" in found.stdout) == (1, True), found.stdout + found.stderr


def test_a_server_that_refuses_what_may_be_refused_is_mended_for_the_script_too(tmp_path: Path) -> None:
    ramp = ("--workload", "ramp", "--set", "start=100", "--set", "end=600", "--set", "source.steps=4")
    words = ("--launch", launch("longer", "300"), *ramp, "--no-asides", "--out", "run", "-q")
    done = kvstress("run", *words, cwd=tmp_path)
    assert done.returncode == 1, done.stdout + done.stderr
    found = shrink(tmp_path / "run", "--launch", launch("longer", "300"))
    assert found.returncode == 0, found.stdout + found.stderr
    for server, code in ((("longer", "300"), 1), (("longer", "300", "refuses"), 0)):
        with serving(*server) as url:
            assert script(tmp_path / "small", url).returncode == code
