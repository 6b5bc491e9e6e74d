"""A server that dies, restarts or logs something telling in mid-run becomes an event."""

import os
import signal

import anyio
import pytest

from kvstress.core.events import ServerChange, ServerEvent
from kvstress.launch.watch import LOG_EVENTS_CAP
from tests.launch.servers import HTTP, SERVER, Bench, marked, python


@pytest.mark.parametrize("code", [0, 7])
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_an_exit_in_mid_run_is_told_whatever_its_code(bench: Bench, code: int, backend: str) -> None:
    dies = f"once(sys.argv[2], lambda: (print('engine dead', flush=True), os._exit({code})))\n"
    gone = python(HTTP + dies + "serve()", "{port}", str(bench.go))

    async def main() -> ServerEvent:
        async with bench.launched(gone):
            bench.go.touch()
            return await bench.event(ServerChange.EXITED)

    event = anyio.run(main, backend=backend)
    assert event.code == code
    assert f"exited with code {code}; its last log lines: " in event.detail
    assert event.detail.endswith("engine dead")
    assert len(bench.told(ServerChange.EXITED)) == 1


def test_a_signal_in_mid_run_is_told_as_a_negative_code(bench: Bench) -> None:
    async def main() -> ServerEvent:
        async with bench.launched(SERVER) as server:
            os.kill(server.pid, signal.SIGKILL)
            return await bench.event(ServerChange.EXITED)

    event = anyio.run(main)
    assert event.code == -9
    assert "was killed by SIGKILL" in event.detail


def test_workers_that_survive_a_dead_server_are_ended_with_it(bench: Bench) -> None:
    dies = "subprocess.Popen(['sleep', '600'])\nonce(sys.argv[2], lambda: os._exit(0))\n"
    orphaning = python(HTTP + dies + "serve()", "{port}", str(bench.go))

    async def main() -> None:
        async with bench.launched(orphaning) as server:
            bench.go.touch()
            await bench.event(ServerChange.EXITED)
            assert len(set(marked(bench.mark)) - {server.supervisor}) == 1

    anyio.run(main)
    assert marked(bench.mark) == []


def test_log_lines_that_match_are_told_clean_and_whole(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POOL_TOKEN", "tok-1234")
    chatty = python(
        HTTP
        + """
def talk():
    for part in ('warm up', ' done\\n', 'CUDA err', 'or \\x1b[1m6\\x1b[0m for tok-1234\\n', 'bye\\n'):
        print(part, end='', flush=True)
        time.sleep(0.3)
once(sys.argv[2], talk)
serve()
""",
        "{port}",
        str(bench.go),
    )

    async def main() -> None:
        async with bench.launched(chatty, patterns=[r"CUDA error", r"out of memory"]):
            bench.go.touch()
            await bench.event(ServerChange.LOG)

    anyio.run(main)
    assert [event.detail for event in bench.told(ServerChange.LOG)] == ["CUDA error 6 for <POOL_TOKEN>"]


def test_a_flood_of_matching_lines_is_capped_and_says_so(bench: Bench) -> None:
    flood = python(HTTP + "print('oops\\n' * 5000, flush=True)\nserve()", "{port}")

    async def main() -> None:
        async with bench.launched(flood, patterns=["oops"]):
            await bench.event(ServerChange.LOG)

    anyio.run(main)
    told = bench.told(ServerChange.LOG)
    assert len(told) == LOG_EVENTS_CAP + 1
    assert told[-1].detail == "more lines match; they are in the log only"


def test_a_server_that_comes_back_as_another_process_is_a_restart(bench: Bench) -> None:
    wrapper = python(
        HTTP
        + """
first = subprocess.Popen([sys.executable, '-S', '-c', sys.argv[2], sys.argv[1]])
wait_for(sys.argv[3])
first.kill(); first.wait()
sys.exit(subprocess.call([sys.executable, '-S', '-c', sys.argv[2], sys.argv[1]]))
""",
        "{port}",
        "{worker}",
        str(bench.go),
    )

    async def main() -> None:
        async with bench.launched(wrapper, values={"worker": HTTP + "serve()"}):
            bench.go.touch()
            await bench.event(ServerChange.RESTARTED)

    anyio.run(main)
    assert bench.told(ServerChange.EXITED) == []
