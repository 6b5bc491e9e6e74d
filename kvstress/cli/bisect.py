"""`kvstress bisect`."""

import os
import sys
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kvstress.cli.launching import Launched, Watched
from kvstress.cli.options import (
    Anew,
    Asides,
    Dialect,
    Json,
    Labelled,
    Load,
    Quiet,
    Requests,
    Stream,
    Timeout,
    budget,
)
from kvstress.core.units import duration, show_duration

if TYPE_CHECKING:
    from rich.console import Console

    from kvstress.harness.bisect import BisectOptions, Found, Progress, Search
    from kvstress.harness.options import RunOptions

_SEARCH = "Search"
DryRun = Annotated[bool, typer.Option("--dry-run", help="Print the plan; launch nothing.", rich_help_panel=_SEARCH)]
FailIfBoundary = Annotated[
    bool, typer.Option("--fail-if-boundary", help="Exit 1 when failures were found.", rich_help_panel=_SEARCH)
]
Out = Annotated[Path | None, typer.Option(help="Directory. Default: reports/bisect/…", rich_help_panel="Output")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Searched:
    """What is searched, and how hard."""

    low: Annotated[str, typer.Option(help="Smallest value: 40G, 16k, 128, 0.5.", rich_help_panel=_SEARCH)]
    high: Annotated[str, typer.Option(help="Largest value, in the same unit.", rich_help_panel=_SEARCH)]
    knob: Annotated[
        str | None,
        typer.Option(help="The {placeholder} to search. Default: the only one that is left.", rich_help_panel=_SEARCH),
    ] = None
    knob_format: Annotated[
        str | None,
        typer.Option(help="How the server wants it: '{bytes}', '{G}GiB'. Default: as typed.", rich_help_panel=_SEARCH),
    ] = None
    resolution: Annotated[
        str | None, typer.Option(help="Default: 1 of the unit, 0.01 for fractions.", rich_help_panel=_SEARCH)
    ] = None
    repeats: Annotated[
        int,
        typer.Option(
            min=1,
            help="Probes of one value at most. Above 1 the server is taken for flaky and the answer is an interval "
            "(12 is a good number).",
            rich_help_panel=_SEARCH,
        ),
    ] = 1
    q: Annotated[
        float, typer.Option(help="The failing probability whose boundary is wanted.", rich_help_panel=_SEARCH)
    ] = 0.5
    budget: Annotated[str | None, typer.Option(help="Launches (20) or time (2h) at most.", rich_help_panel=_SEARCH)] = (
        None
    )
    every: Annotated[
        bool, typer.Option("--every", help="Probe every value: the whole curve.", rich_help_panel=_SEARCH)
    ] = False


def bisect_command(
    *,
    launched: Launched,
    searched: Searched,
    dry_run: DryRun = False,
    fail_if_boundary: FailIfBoundary = False,
    load: Load,
    stream: Stream = None,
    asides: Asides = True,
    requests: Requests,
    timeout: Timeout = "900s",
    dialect: Dialect = None,
    watched: Watched,
    out: Out = None,
    overwrite: Anew = False,
    labelled: Labelled,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Search the value of a launch option (a memory limit) at which a server begins to fail.

    Each probe is a fresh server and a run of its own. Called again, a search that was cut off goes on.
    Exit code: 0 the search completed, 1 it found failures (with --fail-if-boundary), 125 it could not tell, 2 wrong
    call, 130 interrupted.
    """
    from kvstress.harness.options import RunOptions

    run = RunOptions(
        launch=launched.open(),
        launching=launched.launching(watched),
        out=out,
        timeout=duration(timeout),
        stream=stream,
        asides=asides,
        dialect=dialect,
        **requests.asked(),
        **load.asked(),
        **labelled.asked(),
    )
    options = _options(run, launched, searched, overwrite=overwrite)
    raise typer.Exit(_carry_out(options, dry_run=dry_run, fail_if_boundary=fail_if_boundary, json=json, quiet=quiet))


def _options(run: "RunOptions", launched: Launched, searched: Searched, *, overwrite: bool) -> "BisectOptions":
    from kvstress.harness.bisect import BisectOptions

    launches, seconds = budget(searched.budget)
    return BisectOptions(
        run=run,
        knob=searched.knob,
        values=launched.values(),
        low=searched.low,
        high=searched.high,
        resolution=searched.resolution,
        form=launched.form(searched.knob_format),
        repeats=searched.repeats,
        q=searched.q,
        launches=launches,
        seconds=seconds,
        every=searched.every,
        overwrite=overwrite,
    )


def _carry_out(options: "BisectOptions", *, dry_run: bool, fail_if_boundary: bool, json: bool, quiet: bool) -> int:
    from functools import partial

    import anyio
    from rich.console import Console

    from kvstress.harness.bisect import bisect, plan
    from kvstress.report.terminal import live

    console = Console(stderr=json, highlight=False, soft_wrap=True)
    search = plan(options)
    if dry_run or not quiet:
        _show_plan(console, search)
    if dry_run:
        return 0

    def watching(manifest: Any) -> AbstractContextManager[Any]:
        return live(console, manifest) if console.is_terminal and not quiet else nullcontext(lambda event: None)

    tell = (lambda progress: None) if quiet else partial(_show_progress, console)
    settings = {"use_uvloop": sys.platform != "win32"}
    found = anyio.run(partial(bisect, search, view=watching, tell=tell), backend="asyncio", backend_options=settings)
    _show_found(console, found, json=json)
    return found.exit_code(fail_if_boundary=fail_if_boundary)


def _show_plan(console: "Console", search: "Search") -> None:
    from kvstress.harness.options import shown_launch

    space, (plain, refusing) = search.space, search.at_most()
    step = f"{float(space.resolution / space.scale):g}{space.suffix}"
    caps = f"at most {search.steps} steps a probe" if search.steps else "as many steps a probe as its duration allows"
    ends = f"from {space.show(0)} to {space.show(space.count - 1)}"
    lines = [
        f"search {search.knob} {ends} at {step} ({space.count:,} values)",
        f"each probe: {shown_launch(search.options.run.launch or '')}; {search.workload}, {caps}",
        _worst_case(search, plain, refusing),
        f"stored in {search.folder}" + (f", {len(search.known)} probes already there" if search.known else ""),
    ]
    for words in lines:
        console.print(words, markup=False)


def _worst_case(search: "Search", plain: int, refusing: int) -> str:
    if search.options.repeats > 1:
        return f"at most {plain} launches; it ends when the interval is three values wide and the rest was looked into"
    return (
        f"at most {plain} launches when every value starts and is judged and failing changes to passing once; at most "
        f"{refusing} when some refuse to start (each refusal is tried twice)"
    )


def _show_progress(console: "Console", progress: "Progress") -> None:
    from kvstress.search.words import shown

    value = progress.search.space.show(progress.cell.index)
    if progress.outcome is None:
        about = "" if progress.seconds_left is None else f", about {show_duration(progress.seconds_left)} left"
        console.print(f"probe {progress.made + 1}: {value} (about {progress.expected} to go{about})", markup=False)
    else:
        took = show_duration(progress.outcome.seconds)
        console.print(f"  {value} {shown(progress.outcome)} ({took})", markup=False)


def _show_found(console: "Console", found: "Found", *, json: bool) -> None:
    folder = found.search.folder
    if json:
        sys.stdout.write((folder / "bisect.json").read_text(encoding="utf-8"))
        return
    console.print(str(found.content["headline"]), style="bold", markup=False)
    console.print(str(found.content["sentence"]), markup=False)
    console.print(os.fspath(folder / "bisect.html"), markup=False)
