"""What a person, or a CI log, sees while a run goes on and when it is over.

A terminal gets a picture that redraws itself; a log gets one line a prompt, because a picture
in a log is noise. Server text is printed as text: no markup of rich's, no escape of the
terminal's, nothing that the output's encoding cannot carry.
"""

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.live import Live
from rich.text import Text

from kvstress.core.events import Event
from kvstress.core.manifest import Manifest
from kvstress.core.rates import Rate
from kvstress.core.verdict import Judgement, Verdict
from kvstress.report import phrases, rates
from kvstress.report.hostile import encodable, line, tame
from kvstress.report.panel import Panel
from kvstress.report.progress import Progress

REFRESH_HZ = 4
COLOURS = {Verdict.PASS: "bold green", Verdict.FAIL: "bold red"}
WORDS_SHOWN = 600
NOTES_SHOWN = 20


@contextmanager
def live(
    console: Console,
    manifest: Manifest,
    *,
    clock: Callable[[], float] = time.monotonic,
    environ: Mapping[str, str] = os.environ,
) -> Iterator[Callable[[Event], None]]:
    """Show a run; yields what to call with each event. `clock` drives what moves between events."""
    progress = Progress()
    if not _pictured(console, environ):
        yield lambda event: _all(console, progress.see(event), environ)
        return
    panel = Panel(manifest, progress, clock, ascii_only=_ascii(console, environ))
    with Live(panel, console=console, refresh_per_second=REFRESH_HZ, transient=True, redirect_stdout=False) as view:
        yield _pictures(view, panel, environ)


def _pictures(view: Live, panel: Panel, environ: Mapping[str, str]) -> Callable[[Event], None]:
    said = 0

    def see(event: Event) -> None:
        nonlocal said
        lines = panel.progress.see(event)
        panel.synchronise(panel.progress.last_at)
        # Only what failed is worth a line that stays; the rest is in the picture, and then in the files.
        failed = [text for text in lines if ": " in text and panel.progress.failures > said]
        if failed and said < NOTES_SHOWN:
            said = panel.progress.failures
            _all(view.console, failed, environ)

    return see


def _pictured(console: Console, environ: Mapping[str, str]) -> bool:
    # FORCE_COLOR makes rich take a pipe for a terminal: colours are welcome in a log, a picture is not.
    return console.is_interactive and console.file.isatty() and not environ.get("CI")


def _ascii(console: Console, environ: Mapping[str, str]) -> bool:
    # Python writes UTF-8 even where the locale is C, and such a terminal shows bytes.
    asked = environ.get("LC_ALL") or environ.get("LANG") or ""
    return console.options.ascii_only or asked in ("C", "POSIX")


def _all(console: Console, lines: list[str], environ: Mapping[str, str]) -> None:
    for text in lines:
        _say(console, text, environ=environ)


def _say(
    console: Console, text: str, style: str = "", environ: Mapping[str, str] = os.environ, *, wrap: bool = False
) -> None:
    """Print `text` as it is: no markup, no highlighting; `wrap` breaks it between words where there is a terminal."""
    shown = encodable(text, "ascii" if _ascii(console, environ) else console.encoding)
    console.print(Text(shown, style=style), soft_wrap=not (wrap and console.is_terminal), highlight=False)


def conclude(
    console: Console,
    manifest: Manifest,
    judgement: Judgement,
    report_path: Path,
    *,
    measured: Sequence[Rate] = (),
    unread: tuple[int, int, str] = (0, 0, ""),
    environ: Mapping[str, str] = os.environ,
) -> None:
    """Print the verdict, why, the first failure with the server's words, pool fill, rates, and where the files are.

    `unread`: how many of how many scrapes could not be read, and what the last of those said.
    """

    def say(text: str, style: str = "", wrap: bool = True) -> None:
        _say(console, text, style, environ, wrap=wrap)

    say("")
    say(judgement.verdict.name, COLOURS.get(judgement.verdict, "bold yellow"))
    say(line(judgement.why, 600))
    if manifest.target.embedded:
        say(phrases.EMBEDDED, "yellow")
    if manifest.stand_in:
        say(f"prompts        {line(manifest.content, 300)}")
    for text in _headlines(judgement):
        say(text)
    if unread[0]:
        say(f"metrics        {unread[0]:,} of {unread[1]:,} scrapes could not be read; {line(unread[2], 300)}")
    for text in rates.lines(measured):
        say(text, wrap=False)
    folder = report_path if report_path.is_dir() else report_path.parent
    page = report_path / "report.html" if report_path.is_dir() else report_path
    say(f"report         {line(str(page), 1000)}", wrap=False)
    say(f"csv            {line(str(folder / 'prompts.csv'), 1000)}", wrap=False)


def _headlines(judgement: Judgement) -> Iterator[str]:
    first, finding = judgement.first_failure, phrases.deciding(judgement)
    yield f"first failure  {phrases.failure(first) if first else phrases.censored(judgement.censored_at)}"
    if finding is not None:
        for text in tame(finding.summary, WORDS_SHOWN).splitlines()[:12]:
            yield f"               {text}"
    yield f"pool full      {phrases.fill(judgement.pool_fill)} ({phrases.fill_how(judgement.pool_fill)})"
    yield f"prompts done   {judgement.steps:,}"
