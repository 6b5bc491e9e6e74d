"""The pure parts: command lines, log lines, ports, presets; and the wait for GPU memory."""

import os
import socket
import sys
import unicodedata
from pathlib import Path

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvstress.launch.command import fill, placeholders, split
from kvstress.launch.gpu import used_mib, wait_memory_back
from kvstress.launch.log import Secrets, clean, tail
from kvstress.launch.ports import free_port, holders, is_free, listeners, wait_free
from kvstress.launch.presets import PRESETS
from kvstress.launch.supervisor import descendants

NO_SECRETS = Secrets()


def test_a_value_with_blanks_and_quotes_stays_one_argument() -> None:
    words, _ = fill("run {model} --port {port}", {}, {"model": "a b 'c' \"d\" $HOME", "port": "1"})
    assert words == ["run", "a b 'c' \"d\" $HOME", "--port", "1"]


def test_braces_that_are_no_name_are_left_alone() -> None:
    command = """serve --config '{"a": {"b": 1}, "c": {}}' --re 'x{4}' {{literal}} {port}"""
    words, _ = fill(command, {}, {"port": "1"})
    assert words == ["serve", "--config", '{"a": {"b": 1}, "c": {}}', "--re", "x{4}", "{literal}", "1"]


@given(st.dictionaries(st.from_regex(r"[a-z][a-z_0-9]{0,8}", fullmatch=True), st.text(), max_size=5))
def test_each_value_comes_out_as_its_own_argument_and_is_not_filled_again(values: dict[str, str]) -> None:
    words, _ = fill(" ".join(["run", *(f"{{{name}}}" for name in values)]), {}, values)
    assert words == ["run", *values.values()]


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("\x1b[1;31mred\x1b[0m text\r", "red text"),
        ("\x1b]0;title\x07after", "after"),
        ("a\x00b\x07c\x7fd\x9be", "abcde"),
        ("abc\u202egnp.exe", "abcgnp.exe"),
        ("key sk-long-secret and sk-long", "key <LONG_KEY> and <KEY>"),
        ("split sk-\x1b[0mlong-secret", "split <LONG_KEY>"),
        ("y" * 300, "y" * 240 + "… [60 more characters]"),
    ],
)
def test_a_log_line_is_safe_to_show(line: str, shown: str) -> None:
    secrets = Secrets.of({}, {"KEY": "sk-long", "LONG_KEY": "sk-long-secret", "N": "1"})
    assert clean(line, secrets) == shown


@given(st.binary(max_size=400))
def test_no_log_breaks_a_sentence(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    log = tmp_path_factory.getbasetemp() / "any.log"
    log.write_bytes(content)
    shown = tail(log, 0, NO_SECRETS)
    assert [sign for sign in shown if unicodedata.category(sign) in ("Cc", "Zl", "Zp") and sign != "\t"] == []


def test_the_tail_leaves_out_what_an_earlier_launch_logged_and_half_lines(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_text("earlier\n")
    with log.open("a") as more:
        more.writelines(f"line {number:06d}\n" for number in range(5_000))
    assert tail(log, 8, NO_SECRETS, lines=2) == "line 004998 | line 004999"
    assert tail(log, 8, NO_SECRETS, lines=10_000).startswith("line ")
    assert tail(log, log.stat().st_size, NO_SECRETS) == ""
    assert tail(tmp_path / "none", 0, NO_SECRETS) == ""


def test_a_port_is_free_taken_and_free_again() -> None:
    port = free_port()
    assert is_free(port)
    assert not listeners(port)
    with socket.create_server(("127.0.0.1", port)):
        assert not is_free(port)
        assert len(listeners(port)) == 1
        assert holders(port) == holders(port, [os.getpid()]) == (os.getpid(),)
        assert not anyio.run(wait_free, port, 0.1)
    assert anyio.run(wait_free, port, 10.0)


def test_connections_that_wait_out_their_time_do_not_hold_a_port() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)):
            server.accept()[0].close()
    assert anyio.run(wait_free, port, 10.0)


def test_a_process_without_children_has_no_descendants() -> None:
    assert descendants(2**22 + 1) == {}
    assert os.getpid() in descendants(os.getppid())


@pytest.mark.parametrize("name", sorted(PRESETS))
def test_each_preset_takes_a_port_and_its_knob_and_is_one_command(name: str) -> None:
    preset = PRESETS[name]
    assert placeholders(preset.command) - {"model"} == {"port", preset.knob}
    words, _ = fill(preset.command, {}, dict.fromkeys(placeholders(preset.command), "1"))
    assert words[0] == split(preset.command)[0]


def gpu(script: str) -> tuple[str, ...]:
    return (sys.executable, "-S", "-c", script)


@pytest.mark.parametrize(
    ("query", "used"),
    [
        (gpu("print('1024\\n2048')"), (1024, 2048)),
        (gpu("print('[N/A]')"), None),
        (gpu("raise SystemExit(9)"), None),
        (gpu(""), None),
        (("no-such-program-for-gpus",), None),
    ],
)
def test_gpu_memory_is_read_or_unknown(query: tuple[str, ...], used: tuple[int, ...] | None) -> None:
    assert anyio.run(used_mib, query) == used


async def waited(level: tuple[int, ...], query: tuple[str, ...], seconds: float) -> bool:
    return await wait_memory_back(level, seconds=seconds, query=query)


def test_the_wait_for_gpu_memory_ends_when_it_is_back(tmp_path: Path) -> None:
    falling = gpu(
        f"import pathlib; p = pathlib.Path({str(tmp_path / 'polls')!r}); n = len(p.read_text()) if p.exists() else 0;"
        "p.write_text('x' * (n + 1)); print(40000 - 20000 * n)"
    )
    assert anyio.run(waited, (100,), falling, 60.0)
    assert (tmp_path / "polls").read_text() == "xxx"


def test_the_wait_for_gpu_memory_is_bounded() -> None:
    assert not anyio.run(waited, (100,), gpu("print(40000)"), 0.5)


def test_without_a_gpu_there_is_nothing_to_wait_for() -> None:
    assert anyio.run(waited, (), ("no-such-program-for-gpus",), 0.5)
