"""A failed server can be looked at or left running before it is stopped; one that did not fail is just stopped."""

import os
import re
import signal
import sys
from pathlib import Path

import pytest

from kvstress.core.errors import UsageError
from kvstress.harness.launching import preset_form, template, with_values
from kvstress.launch.ports import is_free
from tests.cli.running import kvstress
from tests.cli.test_bisect import SERVER, WORKLOAD, wait_until


def run(folder: Path, behaviour: str, *words: str | Path) -> str:
    (folder / "workload.toml").write_text(WORKLOAD)
    command = SERVER.replace("{limit}", "1") + f" {behaviour}"
    made = ("run", "--launch", command, "--workload", "workload.toml", "--out", "run", "--quiet", *words)
    return kvstress(*made, cwd=folder).stderr


def test_a_held_server_is_told_with_the_command_that_ends_it(tmp_path: Path) -> None:
    told = run(tmp_path, "fails-below 2", "--hold")
    found = re.search(r"left running at http://127\.0\.0\.1:(\d+) \(process \d+\); end it with: kill (\d+)", told)
    assert found is not None, told
    port, supervisor = int(found[1]), int(found[2])
    assert not is_free(port)
    os.kill(supervisor, signal.SIGTERM)
    assert wait_until(lambda: is_free(port))


def test_a_server_that_did_not_fail_is_not_held(tmp_path: Path) -> None:
    told = run(tmp_path, "", "--hold", "--on-failure", "echo {port}")
    assert "left running" not in told
    assert not (tmp_path / "run" / "on-failure.txt").exists()


@pytest.mark.parametrize(
    ("command", "output"),
    [
        ("sh -c 'echo {pid}; exit 4'", r"\d+\n\[exit code 4\]\n"),
        ("no-such-tool", "cannot run no-such-tool: No such file.*"),
    ],
)
def test_what_a_debugging_command_says_is_kept_however_it_ends(tmp_path: Path, command: str, output: str) -> None:
    run(tmp_path, "fails-below 2", "--on-failure", command)
    assert re.fullmatch(output, (tmp_path / "run" / "on-failure.txt").read_text(), re.DOTALL)


def test_environment_folder_and_log_file_reach_the_server(tmp_path: Path) -> None:
    (tmp_path / "workload.toml").write_text(WORKLOAD)
    (tmp_path / "place").mkdir()
    code = "import os; print(os.environ['NOTE'], os.getcwd()); raise SystemExit(1)"
    command = f"{sys.executable} -c {code!r} {{port}}".replace("'", '"').replace('"NOTE"', "'NOTE'")
    words = ("--env", "NOTE=hello", "--cwd", tmp_path / "place", "--log-file", tmp_path / "elsewhere.log")
    done = kvstress("run", "--launch", command, "--workload", "workload.toml", "--out", "run", *words, cwd=tmp_path)
    assert done.returncode == 125
    assert (tmp_path / "elsewhere.log").read_text() == f"hello {tmp_path / 'place'}\n"


def test_a_stop_command_ends_the_server(tmp_path: Path) -> None:
    note = tmp_path / "stopped"
    run(tmp_path, "", "--stop", f"touch {note}")
    assert note.exists()


def test_values_go_into_a_preset_and_leave_the_port_for_later() -> None:
    command = with_values(template(None, "llama-server") or "", {"model": "my model.gguf", "ctx_size": "4096"})
    assert "-m 'my model.gguf'" in command and "--port {port}" in command and command.endswith("--ctx-size 4096")
    assert preset_form("vllm") == "{bytes}"
    with pytest.raises(UsageError, match=r"never uses \{x\}"):
        with_values("serve {port}", {"x": "1"})
