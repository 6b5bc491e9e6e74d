"""The main job, end to end: the first failing prompt of a live server, by the mechanism and by nothing else."""

import csv
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.running import events, healthy, kvstress, pages, verdict

WORDS = "prepared model reported device error 6"


@pytest.fixture(scope="module")
def failed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A speedbench run against the reference server at 50G, as `make demo` makes it."""
    folder = tmp_path_factory.mktemp("failed")
    done = kvstress("run", "--server", "reference --memory-limit 50G", "--out", "run", cwd=folder)
    assert done.returncode == 1, done.stdout + done.stderr
    assert WORDS in done.stdout and "report.html" in done.stdout
    assert "embedded reference server" in done.stdout.lower()
    return folder / "run"


def test_the_first_failure_is_a_warm_send_soon_after_the_pool_filled(failed: Path) -> None:
    found = verdict(failed)
    assert found["verdict"] == "FAIL"
    fill, first = found["pool_fill"]["step"], found["first_failure"]
    assert 12 <= fill <= 16
    assert first["phase"] == "warm"
    assert 0 <= first["step"] - fill <= 5
    assert WORDS in found["findings"][0]["summary"]
    assert found["coverage"] == {"hit": True, "full": True}


def test_the_csv_has_the_reports_columns_and_the_failing_row(failed: Path) -> None:
    with (failed / "prompts.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0])[:9] == [
        "i",
        "context",
        "prime",
        "warm",
        "seconds",
        "flare_free_kv_tokens",
        "flare_cached_kv_tokens",
        "flare_free_snapshots",
        "flare_requests_failed_total",
    ]
    assert [row["i"] for row in rows] == [str(index) for index in range(len(rows))]
    assert [row["context"] for row in rows[:4]] == ["16k", "32k", "16k", "32k"]
    assert all(row["prime"] == "ok" for row in rows)
    assert [row["warm"] for row in rows[:-1]] == ["ok"] * (len(rows) - 1)
    assert rows[-1]["warm"].startswith("fail: ") and WORDS in rows[-1]["warm"]
    assert rows[-1]["flare_requests_failed_total"] in ("1", "1.0")


def test_the_report_is_one_file_with_the_servers_words(failed: Path) -> None:
    page = (failed / "report.html").read_text()
    assert WORDS in page and "<svg" in page
    assert "http://" not in page.replace("http://127.0.0.1", "").replace("http://www.w3.org", "")


def test_judging_from_manifest_and_events_alone_gives_the_same_bytes(failed: Path, tmp_path: Path) -> None:
    copy = tmp_path / "run"
    shutil.copytree(failed, copy)
    for path in copy.iterdir():
        if path.name not in ("manifest.json", "events.jsonl"):
            path.unlink()
    done = kvstress("judge", copy, "--json", cwd=tmp_path)
    assert done.returncode == 1
    assert done.stdout == (failed / "verdict.json").read_text()
    tables = ("verdict.json", "findings.jsonl", "prompts.csv", "requests.csv", "metrics.csv", "junit.xml", "summary.md")
    for name in (*tables, "report.html"):
        assert (copy / name).read_bytes() == (failed / name).read_bytes(), name


def test_report_renders_a_stored_run_without_a_server(failed: Path, tmp_path: Path) -> None:
    copy = tmp_path / "run"
    shutil.copytree(failed, copy)
    (copy / "report.html").unlink()
    done = kvstress("report", copy, cwd=tmp_path)
    assert (done.returncode, done.stdout.strip()) == (0, str(copy / "report.html"))
    assert WORDS in (copy / "report.html").read_text()


@pytest.mark.parametrize("switch", ["--fix inert-mask", "--fix zero-on-release", "--kv-format int8"])
def test_without_nan_bytes_at_the_read_the_same_run_passes(switch: str, tmp_path: Path) -> None:
    server = f"reference --memory-limit 50G {switch}"
    done = kvstress("run", "--server", server, "--max-steps", "20", "--out", "run", "--quiet", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    found = verdict(tmp_path / "run")
    assert (found["verdict"], found["censored_at"], found["first_failure"]) == ("PASS", 20, None)
    assert found["pool_fill"]["step"] <= 16


def test_a_run_that_never_fills_the_pool_is_invalid_and_not_a_pass(tmp_path: Path) -> None:
    done = kvstress("run", "--server", "reference", "--max-steps", "2", "--out", "run", cwd=tmp_path)
    assert done.returncode == 125
    assert "INVALID" in done.stdout and "full" in done.stdout


def test_the_same_seed_sends_the_same_bytes(reference: Callable[..., str], tmp_path: Path) -> None:
    url = reference("--memory-limit", "50G")
    for name, seed in (("a", "7"), ("b", "7"), ("c", "8")):
        kvstress("run", "--server", url, "--seed", seed, "--max-steps", "2", "--out", name, cwd=tmp_path)
    sent = {name: [event["body_sha256"] for event in events(tmp_path / name, "request-sent")] for name in "abc"}
    assert len(sent["a"]) == 9  # four sizing requests, two steps of two, one probe after the last
    assert sent["a"] == sent["b"]
    assert not set(sent["a"]) & set(sent["c"][:-1])


@pytest.mark.parametrize("stream", ["--stream", "--no-stream"])
def test_a_launched_server_is_driven_and_stopped(stream: str, tmp_path: Path) -> None:
    command = "kvstress serve --memory-limit 37G --fix inert-mask --port {port}"
    sizes = "contexts=2k,4k"
    words = ("--launch", command, "--set", sizes, "--max-steps", "40", stream, "--out", "run", "--quiet")
    done = kvstress("run", *words, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    changes = [event["change"] for event in events(tmp_path / "run", "server-event")]
    assert changes[:2] == ["started", "ready"]
    assert "exited" not in changes
    assert (tmp_path / "run" / "server.log").is_file()


def test_a_run_of_two_workers_is_one_run_that_comes_to_the_same(tmp_path: Path) -> None:
    with pages(healthy()) as url:
        words = ("--server", url, "--workload", "ramp", "--set", "end=2k", "--set", "source.steps=3", "--quiet")
        one, two = (kvstress("run", *words, "--workers", n, "--out", n, cwd=tmp_path) for n in ("1", "2"))
    assert (one.returncode, two.returncode) == (0, 0), one.stderr + two.stderr
    assert (tmp_path / "1" / "verdict.json").read_bytes() == (tmp_path / "2" / "verdict.json").read_bytes()
    sent = [[event["body_sha256"] for event in events(tmp_path / n, "request-sent")] for n in ("1", "2")]
    assert sent[0] == sent[1]
    assert events(tmp_path / "2", "exchange")[-1]["kind"] == "ok"


def test_a_server_without_metrics_is_driven_and_its_pool_is_not_known(tmp_path: Path) -> None:
    with pages(healthy()) as url:
        words = ("--server", url, "--workload", "ramp", "--set", "end=2k", "--set", "source.steps=3", "--out", "run")
        done = kvstress("run", *words, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert verdict(tmp_path / "run")["pool_fill"] is None
    assert "not exported" in (tmp_path / "run" / "report.html").read_text()


def test_keep_going_passes_the_first_failure_and_still_fails(tmp_path: Path) -> None:
    with pages(healthy(chat=(500, "application/json", '{"error":{"message":"boom"}}'))) as url:
        words = ("--server", url, "--max-steps", "3", "--keep-going", "--out", "run", "--quiet")
        done = kvstress("run", *words, cwd=tmp_path)
    assert done.returncode == 1
    assert verdict(tmp_path / "run")["first_failure"]["step"] == 0
    assert verdict(tmp_path / "run")["steps"] == 3


def test_no_secret_reaches_the_run_directory_or_the_screen(tmp_path: Path) -> None:
    secret = "sk-do-not-tell-anyone"
    with pages(healthy()) as url:
        words = ("--server", url.replace("://", f"://me:{secret}@"), "--header", f"X-Key: {secret}", "--out", "run")
        key = {"MY_KEY": secret}
        done = kvstress("run", *words, "--api-key-env", "MY_KEY", "--max-steps", "2", cwd=tmp_path, env=key)
    assert done.returncode in (0, 125)
    assert secret not in done.stdout + done.stderr
    for path in (tmp_path / "run").iterdir():
        assert secret not in path.read_text(), path.name
