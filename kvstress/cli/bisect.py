"""`kvstress bisect`."""

import os
import sys
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kvstress.cli.launching import Cwd, Env, LogPattern, OnFailure, Preset, Stop, Value
from kvstress.cli.run import Data, Header, Launch, Set, Workload
from kvstress.core.units import duration, show_duration

if TYPE_CHECKING:
    from rich.console import Console

    from kvstress.harness.bisect import BisectOptions, Found, Progress, Search

_SEARCH, _LOAD, _SERVER, _OUTPUT = "Search", "Workload", "Server", "Output"


def bisect_command(
    *,
    launch: Launch = None,
    preset: Preset = None,
    value: Value = None,
    low: Annotated[str, typer.Option(help="Smallest value: 40G, 16k, 128, 0.5.", rich_help_panel=_SEARCH)],
    high: Annotated[str, typer.Option(help="Largest value, in the same unit.", rich_help_panel=_SEARCH)],
    knob: Annotated[
        str | None,
        typer.Option(help="The {placeholder} to search. Default: the only one that is left.", rich_help_panel=_SEARCH),
    ] = None,
    knob_format: Annotated[
        str | None,
        typer.Option(help="How the server wants it: '{bytes}', '{G}GiB'. Default: as typed.", rich_help_panel=_SEARCH),
    ] = None,
    resolution: Annotated[
        str | None, typer.Option(help="Default: 1 of the unit, 0.01 for fractions.", rich_help_panel=_SEARCH)
    ] = None,
    repeats: Annotated[
        int,
        typer.Option(
            min=1,
            help="Probes of one value at most. Above 1 the server is taken for flaky and the answer is an interval "
            "(12 is a good number).",
            rich_help_panel=_SEARCH,
        ),
    ] = 1,
    q: Annotated[
        float, typer.Option(help="The failing probability whose boundary is wanted.", rich_help_panel=_SEARCH)
    ] = 0.5,
    budget: Annotated[
        str | None, typer.Option(help="Launches (20) or time (2h) at most.", rich_help_panel=_SEARCH)
    ] = None,
    every: Annotated[
        bool, typer.Option("--every", help="Probe every value: the whole curve.", rich_help_panel=_SEARCH)
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the plan; launch nothing.", rich_help_panel=_SEARCH)
    ] = False,
    fail_if_boundary: Annotated[
        bool, typer.Option("--fail-if-boundary", help="Exit 1 when failures were found.", rich_help_panel=_SEARCH)
    ] = False,
    workload: Workload = "speedbench",
    set_: Set = None,
    data: Data = None,
    seed: Annotated[int, typer.Option(help="Same seed, same prompts.", rich_help_panel=_LOAD)] = 0,
    stream: Annotated[
        bool | None, typer.Option("--stream/--no-stream", help="Default: the workload's.", rich_help_panel=_LOAD)
    ] = None,
    asides: Annotated[
        bool, typer.Option("--asides/--no-asides", help="Probes beside the workload.", rich_help_panel=_LOAD)
    ] = True,
    max_steps: Annotated[int | None, typer.Option(min=1, help="Steps a probe.", rich_help_panel=_LOAD)] = None,
    max_duration: Annotated[str | None, typer.Option(help="Time a probe, as 25m.", rich_help_panel=_LOAD)] = None,
    model: Annotated[
        str | None, typer.Option(help="Default: the first of /v1/models.", rich_help_panel=_SERVER)
    ] = None,
    header: Header = None,
    api_key_env: Annotated[
        str | None, typer.Option(help="Environment variable that holds the API key.", rich_help_panel=_SERVER)
    ] = None,
    timeout: Annotated[str, typer.Option(help="Deadline of one request.", rich_help_panel=_SERVER)] = "900s",
    ready_timeout: Annotated[
        str, typer.Option(help="How long a launch may take to answer.", rich_help_panel=_SERVER)
    ] = "600s",
    dialect: Annotated[str | None, typer.Option(help="Metric names to expect.", rich_help_panel=_SERVER)] = None,
    env: Env = None,
    cwd: Cwd = None,
    stop: Stop = None,
    log_pattern: LogPattern = None,
    on_failure: OnFailure = None,
    out: Annotated[
        Path | None, typer.Option(help="Directory. Default: reports/bisect/…", rich_help_panel=_OUTPUT)
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Begin again instead of going on.", rich_help_panel=_OUTPUT)
    ] = False,
    commit: Annotated[
        str | None, typer.Option(help="The server's commit, as a label.", rich_help_panel=_OUTPUT)
    ] = None,
    hardware: Annotated[
        str | None, typer.Option(help="The machine under test, as a label.", rich_help_panel=_OUTPUT)
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print bisect.json.", rich_help_panel=_OUTPUT)] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Only the answer.", rich_help_panel=_OUTPUT)] = False,
) -> None:
    """Search the value of a launch option (a memory limit) at which a server begins to fail.

    Each probe is a fresh server and a run of its own. Called again, a search that was cut off goes on.
    Exit code: 0 the search completed, 1 it found failures (with --fail-if-boundary), 125 it could not tell, 2 wrong
    call, 130 interrupted.
    """
    from kvstress.cli.launching import launching, pairs
    from kvstress.cli.run import key_header
    from kvstress.harness import inputs
    from kvstress.harness.bisect import BisectOptions
    from kvstress.harness.launching import preset_form, template
    from kvstress.harness.options import RunOptions

    run = RunOptions(
        launch=template(launch, preset),
        workload=workload,
        model=model,
        out=out,
        max_steps=max_steps,
        max_duration=None if max_duration is None else duration(max_duration),
        seed=seed,
        settings=inputs.parse_settings(set_ or []),
        data=data,
        headers={**inputs.parse_headers(header or []), **key_header(api_key_env)},
        api_key_env=api_key_env,
        timeout=duration(timeout),
        ready_timeout=duration(ready_timeout),
        stream=stream,
        asides=asides,
        dialect=dialect,
        commit=commit,
        hardware=hardware,
        launching=launching(env, cwd, stop, log_pattern, on_failure),
    )
    launches, seconds = _budget(budget)
    options = BisectOptions(
        run=run,
        knob=knob,
        values=pairs("--value", value),
        low=low,
        high=high,
        resolution=resolution,
        form=knob_format or preset_form(preset),
        repeats=repeats,
        q=q,
        launches=launches,
        seconds=seconds,
        every=every,
        overwrite=overwrite,
    )
    raise typer.Exit(_carry_out(options, dry_run=dry_run, fail_if_boundary=fail_if_boundary, json=json, quiet=quiet))


def _budget(text: str | None) -> tuple[int | None, float | None]:
    """A plain number is launches, a number with a unit time."""
    if text is None:
        return None, None
    return (int(text), None) if text.strip().isdecimal() else (None, duration(text))


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
