"""A terminal gets a picture, a log gets lines, and a server's text does nothing in either."""

import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

from kvstress.core.events import RequestSent, StepStarted
from kvstress.core.manifest import Target
from kvstress.report.panel import ASCII_BLOCKS, BLOCKS, Panel, gauge, timer
from kvstress.report.progress import Progress
from kvstress.report.terminal import conclude, live
from tests.report import runs
from tests.report.screen import Pipe, terminal

NO_CI: dict[str, str] = {}
HOSTILE = "[bold red]x[/] \x1b[2J\x07 \u202e é 错 \ud83d"
REPORT = Path("/tmp/a run/report.html")


def logged(encoding: str = "utf-8", words: str = runs.WORDS, environ: dict[str, str] = NO_CI) -> str:
    pipe = Pipe(encoding)
    console = Console(file=pipe, width=80, _environ={})
    with live(console, runs.manifest(), environ=environ) as see:
        for event in runs.events(17, fail_at=16, words=words):
            see(event)
    conclude(console, runs.manifest(), runs.failed(words=words), REPORT, environ=environ)
    return pipe.text


def test_a_log_gets_one_line_a_prompt_with_phases_and_pool() -> None:
    lines = [text for text in logged().splitlines() if text.startswith("prompt ") and "ok" in text]
    assert len(lines) == 17
    assert lines[13] == "prompt 13  32k  prime ok 0.62 s  warm ok 0.23 s  pool 99.8 % (free 512 of 481,280 tokens)"


def test_a_log_line_is_never_wrapped_and_carries_no_escape() -> None:
    assert "\x1b" not in logged()
    assert "warm failed: HTTP 500 0.14 s  pool 99.8 % (free 512 of 481,280 tokens)\n" in logged()


def test_the_end_tells_verdict_why_failure_words_fill_and_files() -> None:
    told = logged()
    for needed in ("FAIL\n", "The warm send of prompt 16 failed", "first failure  prompt 16, warm", runs.WORDS):
        assert needed in told
    assert "pool full      prompt 14 (measured: from the pool's own levels)" in told
    assert "/tmp/a run/report.html" in told
    assert "/tmp/a run/prompts.csv" in told


@pytest.mark.parametrize("encoding", ["utf-8", "ascii", "latin-1"])
def test_hostile_words_are_printed_as_text_in_any_encoding(encoding: str) -> None:
    told = logged(encoding, HOSTILE)
    assert "[bold red]x[/] \\x1b[2J\\x07 \\u202e" in told
    assert not [c for c in told if ord(c) < 32 and c != "\n"]


def test_a_server_without_metrics_has_no_pool_in_its_lines() -> None:
    pipe = Pipe()
    with live(Console(file=pipe, _environ={}), runs.manifest(), environ=NO_CI) as see:
        for event in runs.events(2, metrics=False):
            see(event)
    assert "prompt 1  32k  prime ok 0.62 s  warm ok 0.21 s\n" in pipe.text


def test_a_terminal_gets_a_picture_and_leaves_only_what_failed() -> None:
    with terminal() as (console, screen), live(console, runs.manifest(), environ=NO_CI) as see:
        for event in runs.events(17, fail_at=16):
            see(event)
        shown = screen.drain()
    assert f"prompt 16  warm: {runs.WORDS}" in shown
    assert "prompt 3  32k  prime ok" not in shown
    assert "\x1b[?25l" in shown


def test_the_picture_moves_by_its_timer_without_any_event() -> None:
    now = [0.0]
    with terminal() as (console, screen), live(console, runs.manifest(), clock=lambda: now[0], environ=NO_CI) as see:
        for event in list(runs.events(1))[:3]:
            see(event)
        now[0] = 301.0
        shown = ""
        for _ in range(60):
            shown = screen.drain()
            if "301.0 s" in shown:
                break
    assert "prime 301.0 s" in shown
    assert "5:01" in shown


def test_ci_gets_lines_even_on_a_terminal() -> None:
    with terminal() as (console, screen), live(console, runs.manifest(), environ={"CI": "true"}) as see:
        for event in runs.events(2):
            see(event)
        shown = screen.drain()
    assert "prompt 1  32k  prime ok" in shown
    assert "\x1b[?25l" not in shown


@pytest.mark.parametrize("width", [20, 40, 60, 80, 200])
@pytest.mark.parametrize("ascii_only", [False, True])
def test_the_picture_fits_and_keeps_its_height_at_any_width(width: int, ascii_only: bool) -> None:
    heights = set()
    progress = Progress()
    panel = Panel(runs.manifest(), progress, lambda: 0.0, ascii_only=ascii_only)
    for event in runs.events(17, fail_at=16):
        progress.see(event)
        pipe = Pipe("ascii" if ascii_only else "utf-8")
        Console(file=pipe, width=width, _environ={}).print(panel, end="")
        rows = pipe.text.splitlines()
        heights.add(len(rows))
        assert max(len(row) for row in rows) <= width
    assert heights == {6}


def test_without_colour_the_picture_says_the_same() -> None:
    progress = Progress()
    for event in list(runs.events(9))[:-4]:
        progress.see(event)
    panel = Panel(runs.manifest(), progress, lambda: 0.0, ascii_only=False)
    plain, coloured = Pipe(), Pipe()
    Console(file=plain, width=80, force_terminal=True, no_color=True, color_system=None, _environ={}).print(panel)
    Console(file=coloured, width=80, force_terminal=True, color_system="256", _environ={}).print(panel)
    assert "\x1b[3" not in plain.text
    assert "prompt 8" in plain.text
    assert "▒" in plain.text
    assert "\x1b[36m" in coloured.text


def test_the_gauge_shows_a_single_free_or_taken_token() -> None:
    nearly = gauge(runs.sample(1, 0.0, runs.CAPACITY), 100, BLOCKS).plain
    barely = gauge(runs.sample(1, 0.0, 16.0), 100, ASCII_BLOCKS).plain
    assert "·" in nearly
    assert "99.8 %" in nearly
    assert "=" in barely or "#" in barely


def test_the_gauge_of_an_unknown_pool_is_words() -> None:
    assert gauge(None, 80, BLOCKS).plain == "pool not read yet"
    blank = type(runs.sample(0, 0, 0))(at=1.0, why="step", step=0)
    assert gauge(blank, 80, BLOCKS).plain == "pool not exported by this server"


def test_an_embedded_server_is_named_as_such_in_picture_and_end() -> None:
    manifest = runs.manifest(target=Target(url="http://h", model="m", embedded=True))
    panel = Panel(manifest, Progress(), lambda: 0.0, ascii_only=True)
    assert "EMBEDDED reference server" in next(iter(panel.lines(80))).plain
    pipe = Pipe()
    conclude(Console(file=pipe, _environ={}), manifest, runs.failed(), REPORT, environ=NO_CI)
    assert "says nothing about a real engine" in pipe.text


def test_concurrent_requests_show_the_oldest_and_how_many() -> None:
    progress = Progress()
    progress.see(StepStarted(at=0.0, step=0, label="16k"))
    for phase, at in (("a", 1.0), ("b", 2.0)):
        progress.see(runs.sent(0, phase, at, 10))
    panel = Panel(runs.manifest(), progress, lambda: 0.0, ascii_only=True)
    panel.synchronise(5.0)
    assert [text.plain for text in panel.lines(80)][2] == "a 4.0 s | 2 in flight"


def test_rates_count_the_servers_tokens_and_none_without_usage() -> None:
    progress, silent = Progress(), Progress()
    for event in runs.events(3):
        progress.see(event)
    assert progress.rate_in is not None
    assert progress.rate_in > 0
    for event in runs.events(3):
        if not isinstance(event, RequestSent) and hasattr(event, "usage"):
            continue
        silent.see(event)
    assert silent.rate_in is None


def test_a_timer_is_short() -> None:
    assert [timer(7.9), timer(1493.0), timer(3723.0)] == ["0:07", "24:53", "1:02:03"]


def test_metrics_that_could_not_be_read_are_told_at_the_end() -> None:
    said = {}
    for unread in ((0, 14, ""), (12, 14, "/metrics could not be read: \x1b[2Jno answer within 10 s")):
        pipe = Pipe("utf-8")
        conclude(Console(file=pipe, _environ={}), runs.manifest(), runs.passed(), REPORT, unread=unread, environ=NO_CI)
        said[unread[0]] = pipe.text
    assert "scrapes" not in said[0]
    words = "12 of 14 scrapes could not be read; /metrics could not be read: \\x1b[2Jno answer within 10 s"
    assert f"metrics        {words}\n" in said[12]


def test_a_censored_end_gives_the_bound() -> None:
    pipe = Pipe()
    conclude(Console(file=pipe, _environ={}), runs.manifest(), runs.passed(), REPORT.parent, environ=NO_CI)
    assert "first failure  no failure in 143 prompts: below 2.1 % a prompt, 95 %" in pipe.text


def test_the_terminal_imports_neither_pandas_nor_charts_nor_templates() -> None:
    heavy = ("pandas", "altair", "vl_convert", "jinja2")
    asked = f"import sys, kvstress.report.terminal; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[]"
