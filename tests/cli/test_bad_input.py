"""Each mistake gets one sentence that names the thing and the way out, exit 2 or 125, and no traceback."""

import json
import shlex
import signal
import socket
import ssl
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
import trustme

from tests.cli.running import KVSTRESS, healthy, kvstress, pages

NOWHERE = "http://127.0.0.1:9"


def assert_says(done: "subprocess.CompletedProcess[str]", code: int, *parts: str) -> None:
    assert done.returncode == code, done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    said = " ".join(line for line in done.stderr.splitlines() if line.startswith("kvstress: "))
    assert all(part in said for part in parts), done.stderr


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        ("--workload nope --server http://x", ("no workload named 'nope'", "ramp, ", "speedbench")),
        ("--workload speedbench", ("no server named", "--launch", "--server reference")),
        ("--workload missing.toml --server http://x", ("cannot read workload file missing.toml", "No such file")),
        ("--workload broken.toml --server http://x", ("broken.toml", "line")),
        ("--workload typed.toml --server http://x", ('phases[0].max_tokens: expected a positive integer, got "x"',)),
        ("--workload unknown.toml --server http://x", ("unknown.toml", "maxsteps", "max_steps")),
        ("--server http://x --set nonsense=1", ("nonsense", "max_steps")),
        ("--server http://x --set max_steps", ("expected key=value",)),
        ("--server http://x --set max_steps=many", ("max_steps", "many")),
        ("--server http://x --set oracles.arm=STATUSS", ("no oracle named 'STATUSS'", "STATUS, ")),
        ("--server http://x --data nowhere", ("--data nowhere: no such directory",)),
        ("--server http://x --data empty", ("throughput_16k.jsonl", "throughput_16k.parquet")),
        ("--server http://x --data hollow", ("throughput_16k.jsonl is empty",)),
        ("--server http://x --data unresolved", ("throughput_16k.jsonl row 2", "placeholder")),
        ("--server http://x --api-key-env NOT_SET_ANYWHERE", ("NOT_SET_ANYWHERE", "not set")),
        ("--server http://x --header secret", ("expected 'Name: value'",)),
        ("--server http://x --timeout soon", ("cannot read 'soon'", "25m")),
        ("--server http://x --ca-file none.pem", ("none.pem",)),
        ("--server ftp://x", ("http:// or https://", "http://host:port")),
        ("--server http://x --resume", ("--resume needs --out",)),
        ("--server http://x --resume --out nowhere", ("no run was begun in nowhere; leave --resume out",)),
        *(
            (f"--server http://x {flag}", (flag.split()[0], "is about a server that kvstress starts"))
            for flag in ("--log-file f", "--hold", "--stop true", "--env A=b", "--cwd .", "--on-failure true")
        ),
        ("--server http://x --dialect klingon", ("klingon", "vllm")),
        ("--launch 'serve it'", ("{port}",)),
    ],
)
def test_a_wrong_call_exits_2(words: str, parts: tuple[str, ...], tmp_path: Path) -> None:
    good = "name='w'\nhunts='h'\n[source]\nkind='ramp'\nstart=1\nend=2\n[[phases]]\nname='p'\nmax_tokens=%s\n[stop]\n%s"
    (tmp_path / "broken.toml").write_text("name = 'x\n")
    (tmp_path / "typed.toml").write_text(good % ("'x'", ""))
    (tmp_path / "unknown.toml").write_text(good % ("1", "maxsteps = 2"))
    for name in ("empty", "hollow", "unresolved"):
        (tmp_path / name).mkdir()
    (tmp_path / "hollow" / "throughput_16k.jsonl").write_text("")
    _write_unresolved(tmp_path / "unresolved")
    assert_says(kvstress("run", *shlex.split(words), cwd=tmp_path), 2, *parts)
    assert not (tmp_path / "reports").exists() or not any((tmp_path / "reports" / "runs").iterdir())


def _write_unresolved(folder: Path) -> None:
    placeholder = "FULL BENCHMARK DATA SHOULD BE FETCHED FROM THE SOURCE USING SPECDEC_BENCH and more"
    texts = ["sort these", placeholder]
    rows = [{"category": "low_entropy", "messages": [{"role": "user", "content": text}]} for text in texts]
    for name in ("throughput_16k.jsonl", "throughput_32k.jsonl"):
        (folder / name).write_text("\n".join(map(json.dumps, rows)))


def test_an_unreachable_server_is_named_and_leaves_no_directory(tmp_path: Path) -> None:
    done = kvstress("run", "--server", NOWHERE, "--out", "run", cwd=tmp_path)
    assert_says(done, 125, "http://127.0.0.1:9 cannot be reached", "Is the server running")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("models", "code", "parts"),
    [
        ((200, "text/html", "<html>hello</html>"), 125, ("answers HTML at /v1/models", "right URL")),
        ((200, "text/plain", "pong"), 125, ("answers no JSON at /v1/models",)),
        ((401, "application/json", "{}"), 125, ("wants a key", "--api-key-env")),
        ((404, "application/json", "{}"), 2, ("lists no model", "--model")),
        ((200, "application/json", '{"data": []}'), 2, ("lists no model", "--model")),
        ((200, "application/json", "[" * 100_000), 125, ("answers no JSON at /v1/models",)),
        ((200, "application/json", '{"data": [{"id": "half \\ud800"}]}'), 2, ("lists no model", "--model")),
    ],
)
def test_a_server_that_is_no_openai_server_is_told(
    models: tuple[int, str, str], code: int, parts: tuple[str, ...], tmp_path: Path
) -> None:
    with pages(healthy(models=models)) as url:
        assert_says(kvstress("run", "--server", url, "--out", "run", cwd=tmp_path), code, *parts)
    assert not (tmp_path / "run").exists()


def test_an_untrusted_certificate_points_to_ca_file(tmp_path: Path) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("127.0.0.1").configure_cert(context)
    listener = socket.create_server(("127.0.0.1", 0))
    thread = threading.Thread(target=_shake_hands_once, args=(listener, context))
    thread.start()
    try:
        url = f"https://127.0.0.1:{listener.getsockname()[1]}"
        assert_says(kvstress("run", "--server", url, cwd=tmp_path), 125, "cannot be reached", "--ca-file")
    finally:
        listener.close()
        thread.join(10)


def _shake_hands_once(listener: socket.socket, context: ssl.SSLContext) -> None:
    connection, _ = listener.accept()
    connection.settimeout(5)
    with connection:
        try:
            context.wrap_socket(connection, server_side=True).close()
        except OSError:
            return


@pytest.mark.parametrize(
    "metrics",
    [
        (200, "text/html", "<html>no metrics</html>"),
        (200, "application/json", '{"running": 1}'),
        (200, "text/plain", "\x00\x01 not { prometheus"),
        (500, "text/plain", "down"),
    ],
)
def test_a_metrics_page_that_is_none_is_a_fact_of_the_run_and_not_its_end(
    metrics: tuple[int, str, str], tmp_path: Path
) -> None:
    with pages(healthy(metrics=metrics)) as url:
        words = ("--server", url, "--workload", "ramp", "--set", "end=2k", "--set", "source.steps=2", "--out", "run")
        done = kvstress("run", *words, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    assert len((tmp_path / "run" / "prompts.csv").read_text().splitlines()) == 3


def test_a_server_that_refuses_everything_judges_nothing(tmp_path: Path) -> None:
    refusal = (404, "application/json", '{"error":{"message":"no such model"}}')
    with pages(healthy(chat=refusal)) as url:
        done = kvstress("run", "--server", url, "--max-steps", "2", "--out", "run", cwd=tmp_path)
    assert done.returncode == 125
    assert "no such model" in done.stdout


def test_a_full_disk_is_one_sentence_and_what_was_measured_stays(reference: Callable[..., str], tmp_path: Path) -> None:
    url = reference("--memory-limit", "50G")
    words = [str(KVSTRESS), "run", "--server", url, "--out", "run", "--max-steps", "30"]
    # A limit of the size of files stands for a full disk: both refuse a write in mid-run.
    limited = ["bash", "-c", f"ulimit -f 12; exec {shlex.join(words)}"]
    done = subprocess.run(limited, cwd=tmp_path, capture_output=True, text=True, timeout=100, check=False)
    assert_says(done, 125, "cannot write", "run/events.jsonl")
    assert (tmp_path / "run" / "events.jsonl").stat().st_size > 8_000
    judged = kvstress("judge", "run", cwd=tmp_path)
    assert judged.returncode == 125 and "cut off after" in judged.stdout
    assert (tmp_path / "run" / "report.html").is_file()


@pytest.mark.parametrize("command", ["judge", "report"])
def test_a_directory_that_is_no_run_is_named(command: str, tmp_path: Path) -> None:
    assert_says(kvstress(command, "nothing-here", cwd=tmp_path), 2, "nothing-here")


def test_an_existing_run_is_not_overwritten_unasked(tmp_path: Path) -> None:
    with pages(healthy()) as url:
        words = ("--server", url, "--max-steps", "1", "--out", "run", "--quiet")
        kvstress("run", *words, cwd=tmp_path)
        assert_says(kvstress("run", *words, cwd=tmp_path), 2, "already holds a run", "--overwrite")
        assert kvstress("run", *words, "--overwrite", cwd=tmp_path).returncode == 125


@pytest.mark.parametrize("signal_", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_before_the_first_prompt_ends_a_run_that_hangs_in_one_sentence(
    signal_: signal.Signals, tmp_path: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        command = [str(KVSTRESS), "run", "--server", url, "--out", "run"]
        # A shell may have told its children to ignore SIGINT; a person's terminal does not.
        heeding = lambda: signal.signal(signal.SIGINT, signal.default_int_handler)  # noqa: E731
        process = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True, preexec_fn=heeding)
        connection, _ = silent.accept()
        process.send_signal(signal_)
        _, said = process.communicate(timeout=60)
        connection.close()
    assert (process.returncode, "interrupted before the first prompt" in said) == (130, True), said
    assert not (tmp_path / "run").exists()


def test_a_full_output_is_the_machines_word_and_no_fault(tmp_path: Path) -> None:
    with open("/dev/full", "w") as full:  # noqa: PTH123
        done = subprocess.run([str(KVSTRESS), "workloads", "list"], stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 125
    assert "No space left on device" in done.stderr and "fault of kvstress" not in done.stderr
