"""`kvstress shrink`."""

import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kvstress.cli.launching import Launched
from kvstress.cli.options import (
    Anew,
    Data,
    Quiet,
    RecordedTimeout,
    Requests,
    Reset,
    Server,
    Twins,
    budget,
)
from kvstress.core.units import duration

if TYPE_CHECKING:
    from kvstress.harness.shrink import ShrinkOptions

_SEARCH, _OUTPUT = "Search", "Output"
Run = Annotated[Path, typer.Argument(help="The directory of a run that failed.")]
KeepText = Annotated[bool, typer.Option("--keep-text", help="Write text of private data too.", rich_help_panel=_OUTPUT)]
Out = Annotated[Path | None, typer.Option(help="Directory. Default: reports/shrink/…", rich_help_panel=_OUTPUT)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Searched:
    """How hard is searched, and which knob is turned first."""

    knob: Annotated[
        str | None,
        typer.Option(
            help="The {placeholder} that sizes the pool: made smaller first, from its --value.", rich_help_panel=_SEARCH
        ),
    ] = None
    resolution: Annotated[
        str | None, typer.Option(help="Of the knob. Default: 1 of its unit.", rich_help_panel=_SEARCH)
    ] = None
    knob_format: Annotated[
        str | None, typer.Option(help="How the server wants the knob: '{bytes}'.", rich_help_panel=_SEARCH)
    ] = None
    budget: Annotated[str, typer.Option(help="Launches (200) or time (2h) at most.", rich_help_panel=_SEARCH)] = "200"


def shrink_command(
    *,
    run: Run,
    server: Server = None,
    launched: Launched,
    reset: Reset = None,
    twins: Twins,
    searched: Searched,
    data: Data = None,
    requests: Requests,
    timeout: RecordedTimeout = None,
    out: Out = None,
    keep_text: KeepText = False,
    overwrite: Anew = False,
    quiet: Quiet = False,
) -> None:
    """Cut a failed run down to the few requests that break the server: repro.json, repro.py and ISSUE.md.

    A fresh server for every probe. Called again, a search that was cut off goes on. Exit code: 0 it is as small as
    it gets, 125 it could not be repeated or a bound came first, 2 wrong call, 130 interrupted.
    """
    from kvstress.harness.options import RunOptions
    from kvstress.harness.shrink import LAUNCHES, ShrinkOptions
    from kvstress.store.rundir import read_manifest

    manifest = read_manifest(run)
    launches, seconds = budget(searched.budget)
    options = RunOptions(
        server=server,
        launch=launched.open(),
        launching=launched.launching(),
        workload=manifest.workload,
        out=out,
        timeout=manifest.timeout if timeout is None else duration(timeout),
        time_scale=manifest.time_scale,
        **twins.asked(),
        **requests.asked(),
    )
    asked = ShrinkOptions(
        run=run,
        options=options,
        data=data,
        knob=searched.knob,
        values=launched.values(),
        resolution=searched.resolution,
        form=launched.form(searched.knob_format),
        reset=reset,
        launches=LAUNCHES if launches is None else launches,
        seconds=seconds,
        keep_text=keep_text,
        overwrite=overwrite,
    )
    raise typer.Exit(_carry_out(asked, quiet=quiet))


def _carry_out(asked: "ShrinkOptions", *, quiet: bool) -> int:
    import anyio
    from rich.console import Console

    from kvstress.harness.shrink import carry_out, plan

    search = plan(asked)
    console = Console(highlight=False, soft_wrap=True)
    say = partial(console.print, markup=False)
    say(f"shrink {search.case.size()}, at most {search.asked.launches} launches; kept in {search.folder}")
    tell = (lambda words: None) if quiet else say
    settings = {"use_uvloop": sys.platform != "win32"}
    found = anyio.run(partial(carry_out, search, tell=tell), backend="asyncio", backend_options=settings)
    value_now = search.value(found.case)
    where = f", {asked.knob} {value_now}" if value_now else ""
    say(f"{search.case.size()} -> {found.case.size()}{where}", style="bold")
    say(f"failed in {found.failed} of {found.probes} probes; {found.launches} launches")
    if found.case.size().requests == 1:
        say("it fails at the first request that a fresh server gets")
    if found.why:
        say(f"not finished: {found.why}; the best so far is kept")
    for name in ("repro.py", "repro.json", "ISSUE.md"):
        say(str(search.folder / name))
    return 125 if found.why else 0
