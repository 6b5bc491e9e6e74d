"""`kvstress replay`."""

import sys
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from kvstress.cli.launching import Launched
from kvstress.cli.options import Quiet, RecordedTimeout, Requests, Reset, Server, Twins
from kvstress.core.units import duration

Repro = Annotated[Path, typer.Argument(help="A repro.json, or the directory that shrink wrote.")]
Out = Annotated[Path | None, typer.Option(help="Directory. Default: reports/replays/…", rich_help_panel="Output")]


def replay_command(
    *,
    repro: Repro,
    server: Server = None,
    launched: Launched,
    reset: Reset = None,
    twins: Twins,
    requests: Requests,
    timeout: RecordedTimeout = None,
    out: Out = None,
    quiet: Quiet = False,
) -> None:
    """Send a reproducer to a fresh server: FIXED, STILL FAILS, FAILS DIFFERENTLY or CANNOT TELL.

    Exit code: 0 FIXED, 1 a failure, 125 CANNOT TELL, 2 wrong call, 130 interrupted.
    """
    import anyio
    from rich.console import Console

    from kvstress.harness.options import RunOptions
    from kvstress.harness.replay import replay
    from kvstress.store.repro import read

    facts = read(repro).facts
    options = RunOptions(
        server=server,
        launch=launched.filled_in(),
        launching=launched.launching(),
        workload=facts.workload,
        out=out,
        timeout=facts.timeout if timeout is None else duration(timeout),
        time_scale=facts.time_scale,
        **twins.asked(),
        **requests.asked(),
    )
    say = partial(Console(highlight=False, soft_wrap=True).print, markup=False)
    tell = (lambda words: None) if quiet else say
    settings = {"use_uvloop": sys.platform != "win32"}
    found = anyio.run(replay, repro, options, reset, tell, backend="asyncio", backend_options=settings)
    say(found.answer.value, style="bold")
    say(found.why)
    if (found.path / "report.html").exists():
        say(str(found.path / "report.html"))
    raise typer.Exit(found.answer.exit_code)
