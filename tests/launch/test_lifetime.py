"""Nothing of a server is left, whatever ends it: its block, an error, a cancellation, or a kill -9 of kvstress."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import anyio
import pytest

from kvstress.core.events import ServerChange
from kvstress.launch.ports import is_free
from kvstress.launch.server import Launched
from tests.launch.servers import DAEMON, HTTP, SERVER, Bench, answers, marked, python, wait_until

WITH_DAEMON = python(HTTP + DAEMON + "serve()", "{port}")
PORT_IN_DAEMON = python(
    HTTP
    + """
import signal
pid = os.fork()
if pid == 0:
    os.setsid()
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    serve()
os.waitpid(pid, 0)
""",
    "{port}",
)


@pytest.mark.parametrize("backend", ["asyncio", "trio", "uvloop"])
def test_a_server_lives_exactly_as_long_as_its_block(bench: Bench, backend: str) -> None:
    async def main() -> Launched:
        async with bench.launched(SERVER) as server:
            assert await answers(server.url)
            assert server.pid in marked(bench.mark)
        return server

    uvloop = {"backend": "asyncio", "backend_options": {"use_uvloop": True}}
    server = anyio.run(main, **(uvloop if backend == "uvloop" else {"backend": backend}))
    assert marked(bench.mark) == []
    assert is_free(server.port)
    assert [event.change for event in bench.told(ServerChange.STARTED) + bench.told(ServerChange.READY)] == [
        ServerChange.STARTED,
        ServerChange.READY,
    ]
    assert bench.told(ServerChange.EXITED) == [], "an end that was asked for is no death"


@pytest.mark.timeout(300)
def test_thirty_launches_in_a_row_leave_no_process_and_no_port(bench: Bench) -> None:
    async def main() -> None:
        for turn in range(30):
            command = (SERVER, WITH_DAEMON, PORT_IN_DAEMON)[turn % 3]
            async with bench.launched(command, grace=0.2) as server:
                pass
            assert marked(bench.mark) == [], f"launch {turn}"
            assert is_free(server.port), f"launch {turn}"

    before = set(os.listdir("/proc/self/fd"))  # noqa: PTH208 - names only
    anyio.run(main)
    assert set(os.listdir("/proc/self/fd")) == before, "no pipe of ours is left open"  # noqa: PTH208


def test_a_child_that_left_its_group_and_ignores_sigterm_is_ended(bench: Bench) -> None:
    async def main() -> None:
        async with bench.launched(WITH_DAEMON, grace=0.2) as server:
            groups = {os.getpgid(pid) for pid in marked(bench.mark) if pid != server.supervisor}
            assert len(groups) == 2, "the server's own group and the daemon's"

    anyio.run(main)
    assert marked(bench.mark) == []


PARENT = """
import sys, time, anyio
from pathlib import Path
from kvstress.launch.server import launched
from tests.launch.servers import answers
async def main():
    async with launched(sys.argv[1], clock=time.perf_counter, emit=lambda event: None, ready=answers,
                        log_path=Path(sys.argv[2]), grace=0.5) as server:
        print(server.port, flush=True)
        await anyio.sleep(600)
anyio.run(main)
"""


@pytest.mark.parametrize("command", [SERVER, WITH_DAEMON, PORT_IN_DAEMON], ids=["plain", "daemon", "port in daemon"])
def test_kill_9_of_kvstress_leaves_no_process_and_no_port(bench: Bench, command: str) -> None:
    env = {**os.environ, "KVSTRESS_TEST_MARK": bench.mark, "PYTHONPATH": str(Path(__file__).parents[2])}
    parent = [sys.executable, "-c", PARENT, command, str(bench.log)]
    with subprocess.Popen(parent, stdout=subprocess.PIPE, env=env) as process:
        assert process.stdout is not None
        port = int(process.stdout.readline())
        assert len(marked(bench.mark)) >= 3
        process.kill()
    assert wait_until(lambda: marked(bench.mark) == [])
    assert is_free(port)


def test_kill_9_of_kvstress_while_the_server_is_still_loading_leaves_nothing(bench: Bench) -> None:
    env = {**os.environ, "KVSTRESS_TEST_MARK": bench.mark, "PYTHONPATH": str(Path(__file__).parents[2])}
    parent = [sys.executable, "-c", PARENT, python("import time; time.sleep(600)", "{port}"), str(bench.log)]
    with subprocess.Popen(parent, env=env) as process:
        assert wait_until(lambda: len(marked(bench.mark)) == 3)
        process.kill()
    assert wait_until(lambda: marked(bench.mark) == [])


def test_a_killed_supervisor_takes_the_server_with_it_and_that_is_told(bench: Bench) -> None:
    async def main() -> int:
        async with bench.launched(SERVER) as server:
            os.kill(server.supervisor, signal.SIGKILL)
            told = await bench.event(ServerChange.EXITED)
            assert told.code is None
            assert "lost together with its supervisor" in told.detail
        return server.port

    port = anyio.run(main)
    assert wait_until(lambda: marked(bench.mark) == [])
    assert is_free(port)


class BodyError(Exception):
    """Raised by a block under test."""


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_an_error_in_the_block_comes_out_as_itself_and_ends_the_server(bench: Bench, backend: str) -> None:
    async def main() -> None:
        async with bench.launched(SERVER):
            raise BodyError("mine") from KeyError("its cause")

    with pytest.raises(BodyError, match="mine") as caught:
        anyio.run(main, backend=backend)
    assert isinstance(caught.value.__cause__, KeyError)
    assert marked(bench.mark) == []


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_cancelled_block_ends_the_server(bench: Bench, backend: str) -> None:
    async def main() -> bool:
        with anyio.CancelScope() as scope:
            async with bench.launched(SERVER):
                scope.cancel()
                await anyio.sleep(600)
        return scope.cancelled_caught

    assert anyio.run(main, backend=backend)
    assert marked(bench.mark) == []


def test_an_error_of_the_store_while_the_server_is_watched_comes_out_as_itself(bench: Bench) -> None:
    def full(event: object) -> None:
        if "exited" in str(event):
            raise OSError(28, "No space left on device")

    async def main() -> None:
        async with bench.launched(SERVER, emit=full) as server:
            os.kill(server.pid, signal.SIGKILL)
            await anyio.sleep(600)

    with pytest.raises(OSError, match="No space left"):
        anyio.run(main)
    assert marked(bench.mark) == []


def test_a_server_can_be_stopped_before_its_block_ends(bench: Bench) -> None:
    async def main() -> None:
        async with bench.launched(SERVER) as server:
            await server.stop()
            assert marked(bench.mark) == []
            assert is_free(server.port)

    anyio.run(main)
    assert bench.told(ServerChange.EXITED) == []


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_held_server_outlives_its_block_until_its_supervisor_is_told(bench: Bench, backend: str) -> None:
    async def main() -> Launched:
        async with bench.launched(WITH_DAEMON, grace=0.2) as server:
            server.hold()
        return server

    server = anyio.run(main, backend=backend)
    assert server.pid in marked(bench.mark)
    assert anyio.run(answers, server.url)
    os.kill(server.supervisor, signal.SIGTERM)
    os.waitpid(server.supervisor, 0)
    assert marked(bench.mark) == []


def test_a_server_that_ignores_sigterm_is_killed_after_its_grace(bench: Bench) -> None:
    stubborn = python(HTTP + "import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nserve()", "{port}")

    async def main() -> None:
        async with bench.launched(stubborn, grace=0.3):
            pass

    anyio.run(main)
    assert marked(bench.mark) == []


def test_a_server_gets_one_sigterm_and_time_to_end_by_itself(bench: Bench) -> None:
    polite = python(
        HTTP
        + """
import signal
def end(*_):
    print('one term', flush=True)
    time.sleep(0.4)
    print('bye', flush=True)
    os._exit(0)
signal.signal(signal.SIGTERM, end)
serve()
""",
        "{port}",
    )

    async def main() -> None:
        async with bench.launched(polite, grace=30.0):
            pass

    anyio.run(main)
    lines = [line for line in bench.log.read_text().splitlines() if "GET" not in line]
    assert lines == ["one term", "bye"]


def test_a_stop_command_comes_before_the_signals(bench: Bench) -> None:
    note = bench.folder / "stopped"
    stop = python("import pathlib, sys; pathlib.Path(sys.argv[1]).write_text(sys.argv[2])", str(note), "{port}")

    async def main() -> int:
        async with bench.launched(SERVER, stop_command=stop, grace=0.2) as server:
            assert not note.exists()
        return server.port

    port = anyio.run(main)
    assert note.read_text() == str(port)
    assert marked(bench.mark) == []


@pytest.mark.parametrize(
    "stop", ["no-such-program-at-all", python("raise SystemExit(1)"), python("import time; time.sleep(600)")],
    ids=["missing", "fails", "hangs"],
)  # fmt: skip
def test_a_stop_command_that_does_nothing_does_not_keep_the_server_alive(bench: Bench, stop: str) -> None:
    async def main() -> None:
        async with bench.launched(SERVER, stop_command=stop, stop_seconds=0.3, grace=0.2):
            pass

    anyio.run(main)
    assert marked(bench.mark) == []
