"""Every way of not starting gets its own sentence, with the server's last words in it."""

import os
import socket
from pathlib import Path
from typing import Any

import anyio
import pytest

from kvstress.core.errors import CannotJudgeError, UsageError
from kvstress.core.events import ServerChange
from kvstress.launch.ports import free_port
from kvstress.launch.start import RefusedToStart
from tests.launch.servers import DAEMON, HTTP, SERVER, Bench, answers, marked, python


def refused(bench: Bench, command: str, **how: Any) -> CannotJudgeError:
    """The error of a launch that does not come up; nothing of it may be left."""

    async def main() -> None:
        async with bench.launched(command, **how):
            raise AssertionError("it came up")

    with pytest.raises(CannotJudgeError) as caught:
        anyio.run(main)
    assert marked(bench.mark) == []
    assert "\n" not in str(caught.value), "one sentence"
    return caught.value


def test_a_command_that_exits_at_once_is_named_with_its_code_and_last_lines(bench: Bench) -> None:
    code = "import sys; print('loading'); print('no room for \\x1b[31mthe pool\\x1b[0m', file=sys.stderr); sys.exit(3)"
    error = refused(bench, python(code, "{port}"))
    assert isinstance(error, RefusedToStart)
    assert error.code == 3
    assert "exited with code 3 before it was ready; its last log lines: loading | no room for the pool" in str(error)


def test_a_long_log_is_cut_to_its_last_lines(bench: Bench) -> None:
    error = refused(
        bench, python("for i in range(100000): print('line', i, 'x' * (i % 1000))\nraise SystemExit(1)", "{port}")
    )
    assert "line 99998" in str(error)
    assert "line 99980" not in str(error)
    assert len(str(error)) < 5_000


def test_a_silent_exit_says_where_the_log_would_be(bench: Bench) -> None:
    assert f"it logged nothing to {bench.log}" in str(refused(bench, python("raise SystemExit(1)", "{port}")))


def test_a_signal_is_called_by_its_name(bench: Bench) -> None:
    error = refused(bench, python("import os; os.kill(os.getpid(), 11)", "{port}"))
    assert isinstance(error, RefusedToStart)
    assert error.code == -11
    assert "was killed by SIGSEGV before it was ready" in str(error)


def test_a_command_that_puts_itself_in_the_background_is_told_to_stay(bench: Bench) -> None:
    error = refused(bench, python(DAEMON, "{port}"), grace=0.2)
    assert "exited with code 0 before it was ready and left processes behind (now ended)" in str(error)


def test_a_command_that_does_not_exist_is_no_refusal_of_the_server(bench: Bench) -> None:
    error = refused(bench, "no-such-engine serve --port {port}")
    assert not isinstance(error, RefusedToStart)
    assert "cannot start no-such-engine: " in str(error)
    assert "No such file" in str(error)


def test_a_file_that_is_no_program_is_named(bench: Bench) -> None:
    script = bench.folder / "serve.sh"
    script.write_text("exit 0")
    assert "Permission denied" in str(refused(bench, f"{script} {{port}}"))


def test_a_server_that_never_listens_is_told_apart_from_one_that_never_answers(bench: Bench) -> None:
    silent = python("print('weights: 12 %', flush=True)\nimport time; time.sleep(600)", "{port}")
    error = refused(bench, silent, ready_timeout=3.0)
    assert isinstance(error, RefusedToStart)
    assert error.code is None
    assert "was not ready within 3.00 s: nothing listens on port" in str(error)
    assert "weights: 12 %" in str(error)


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_server_that_listens_but_never_answers_times_out(bench: Bench, backend: str) -> None:
    deaf = python(
        "import socket, sys, time\ns = socket.create_server(('127.0.0.1', int(sys.argv[1])))\ntime.sleep(600)", "{port}"
    )

    async def main() -> None:
        async with bench.launched(deaf, ready_timeout=3.0):
            raise AssertionError("it came up")

    with pytest.raises(RefusedToStart, match=r"it listens on port \d+, but never listed its models"):
        anyio.run(main, backend=backend)
    assert marked(bench.mark) == []


def test_a_server_that_answers_but_not_yet_as_a_model_is_awaited(bench: Bench) -> None:
    polls: list[str] = []

    async def third_time(url: str) -> bool:
        polls.append(url)
        return await answers(url) and len(polls) > 3

    async def main() -> str:
        async with bench.launched(SERVER, ready=third_time) as server:
            return server.url

    url = anyio.run(main)
    assert set(polls) == {url}
    assert len(polls) > 3


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_what_the_readiness_check_raises_comes_out_as_itself(bench: Bench, backend: str) -> None:
    async def wants_a_key(url: str) -> bool:
        raise CannotJudgeError(f"{url} wants a key")

    async def main() -> None:
        async with bench.launched(SERVER, ready=wants_a_key):
            raise AssertionError("it came up")

    with pytest.raises(CannotJudgeError, match="wants a key"):
        anyio.run(main, backend=backend)
    assert marked(bench.mark) == []


def test_a_server_that_takes_its_port_late_comes_up(bench: Bench) -> None:
    late = python(HTTP + "time.sleep(1.5)\nserve()", "{port}")

    async def main() -> bool:
        async with bench.launched(late) as server:
            return await answers(server.url)

    assert anyio.run(main)


def test_a_stranger_on_the_port_is_not_taken_for_the_server(bench: Bench) -> None:
    taken: list[socket.socket] = []

    async def ready(url: str) -> bool:
        if not taken:
            taken.append(socket.create_server(("127.0.0.1", int(url.rpartition(":")[2]))))
        return True

    try:
        error = refused(bench, python("import time; time.sleep(600)", "{port}"), ready=ready)
    finally:
        for listener in taken:
            listener.close()
    assert not isinstance(error, RefusedToStart)
    assert "did not get its port: port" in str(error)
    assert "is held by kvstress itself, which is not part of it" in str(error)


def test_a_server_that_loses_its_port_to_a_stranger_says_so_when_it_exits(bench: Bench) -> None:
    taken: list[socket.socket] = []

    async def ready(url: str) -> bool:
        if not taken:
            taken.append(socket.create_server(("127.0.0.1", int(url.rpartition(":")[2]))))
            bench.go.touch()
        return False

    try:
        error = refused(bench, python(HTTP + "wait_for(sys.argv[2])\nserve()", "{port}", str(bench.go)), ready=ready)
    finally:
        for listener in taken:
            listener.close()
    assert "is held by kvstress itself" in str(error)
    assert "Address already in use" in str(error)


def test_a_port_that_was_asked_for_and_is_not_free_is_named_with_its_holder(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kvstress.launch.server._PORT_SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as held:
        port = held.getsockname()[1]
        error = refused(bench, SERVER, values={"port": str(port)})
    assert f"port {port} is taken by process {os.getpid()}" in str(error)


def test_a_port_that_was_asked_for_is_used(bench: Bench) -> None:
    port = free_port()

    async def main() -> int:
        async with bench.launched(SERVER, values={"port": str(port)}) as server:
            return server.port

    assert anyio.run(main) == port


def test_a_refusal_to_start_is_tried_again_with_a_log_of_its_own(bench: Bench) -> None:
    flag = bench.folder / "second"
    shy = python(
        HTTP + "import os\nif not os.path.exists(sys.argv[2]):\n"
        "    open(sys.argv[2], 'w').close(); print('device busy'); sys.exit(1)\nserve()",
        "{port}",
        str(flag),
    )

    async def main() -> Path:
        async with bench.launched(shy, attempts=2) as server:
            return server.log

    assert anyio.run(main) == bench.folder / "server.2.log"
    assert bench.log.read_text() == "device busy\n"
    assert len(bench.told(ServerChange.STARTED)) == 2


def test_a_server_that_refuses_at_each_attempt_is_refused(bench: Bench) -> None:
    error = refused(bench, python("raise SystemExit(4)", "{port}"), attempts=3)
    assert "exited with code 4" in str(error)
    assert sorted(path.name for path in bench.folder.glob("*.log")) == ["server.2.log", "server.3.log", "server.log"]


def test_a_log_that_cannot_be_written_is_named(bench: Bench) -> None:
    assert "cannot write the server's log" in str(refused(bench, SERVER, log_path=bench.folder / "no" / "server.log"))


PRINTS_ITS_SETTINGS = python("import os; print(dict(os.environ)); raise SystemExit(2)", "{port}")


def test_secrets_in_the_environment_are_never_shown(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UPSTREAM_TOKEN", "tok-inherited")
    error = refused(bench, PRINTS_ITS_SETTINGS, env={"ENGINE_API_KEY": "sk-4711-abc", "DSN": "postgres://u:pw@h/db"})
    shown = str(error) + repr(bench.events)
    assert "UPSTREAM_TOKEN" in bench.log.read_text(), "the server did print them"
    assert not [secret for secret in ("tok-inherited", "sk-4711-abc", "u:pw") if secret in shown]


def test_arguments_are_never_shown(bench: Bench) -> None:
    error = refused(bench, python("raise SystemExit(2)", "--api-key", "sk-4711", "{port}"))
    assert "sk-4711" not in str(error) + repr(bench.events)


@pytest.mark.parametrize(
    ("command", "how", "sentence"),
    [
        ("serve --port 8000", {}, r"never uses \{port\}: write it where the server takes that value, as in --port"),
        ("serve {port} {memory_limit}", {}, r"has a placeholder \{memory_limit\} but no value for it"),
        ("serve {port}", {"values": {"memory_limit": "50G"}}, r"never uses \{memory_limit\}"),
        ("serve '{port}", {}, "cannot read the command .* no closing quotation"),
        ("", {}, "names no program"),
        ("serve {port}\0", {}, "names no program"),
        ("serve {port}", {"values": {"port": "http"}}, "on port 'http': a port is a number"),
        (
            "serve {port}",
            {"cwd": Path("/no/such/folder")},
            "working directory /no/such/folder for serve does not exist",
        ),
        ("serve {port}", {"patterns": ["("]}, r"log pattern '\(' is no regular expression"),
    ],
)
def test_what_is_wrong_with_a_call_is_said_before_anything_starts(
    bench: Bench, command: str, how: dict[str, Any], sentence: str
) -> None:
    async def main() -> None:
        async with bench.launched(command, **how):
            raise AssertionError("it came up")

    with pytest.raises(UsageError, match=sentence):
        anyio.run(main)
    assert bench.events == []


def test_the_environment_and_the_working_directory_reach_the_server(bench: Bench) -> None:
    work = bench.folder / "work"
    work.mkdir()
    note = "import os; open('note', 'w').write(os.environ['HOST'] + os.environ['LD_NOTE'])\n"

    async def main() -> int:
        env = {"HOST": "127.0.0.1:{port}/", "LD_NOTE": '{"a": {"b": 1}}'}
        async with bench.launched(python(HTTP + note + "serve()", "{port}"), env=env, cwd=work) as server:
            return server.port

    port = anyio.run(main)
    assert (work / "note").read_text() == f'127.0.0.1:{port}/{{"a": {{"b": 1}}}}'


def test_a_program_installed_beside_kvstress_is_found_without_its_environment_being_active(bench: Bench) -> None:
    error = refused(bench, "pip --no-such-option-{port}", env={"PATH": "/nowhere"})
    assert "exited with code 2" in str(error)
