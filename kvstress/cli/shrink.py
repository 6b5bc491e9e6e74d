"""`kvstress shrink` and `kvstress replay`: they share how a fresh server is had."""

import sys
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from kvstress.cli.launching import Cwd, Env, Preset, Stop, Value
from kvstress.cli.run import Data, Header, Launch, Server, Twin, TwinLaunch
from kvstress.core.units import duration

_SERVER, _SEARCH, _OUTPUT = "Server", "Search", "Output"
Reset = Annotated[
    str | None,
    typer.Option(
        "--reset", help="Command that restarts the server at --server, run before each probe.", rich_help_panel=_SERVER
    ),
]
Model = Annotated[str | None, typer.Option(help="Default: the first of /v1/models.", rich_help_panel=_SERVER)]
KeyEnv = Annotated[
    str | None, typer.Option(help="Environment variable that holds the API key.", rich_help_panel=_SERVER)
]
Timeout = Annotated[
    str | None, typer.Option(help="Deadline of one request. Default: as recorded.", rich_help_panel=_SERVER)
]
Ready = Annotated[str, typer.Option(help="How long a launch may take to answer.", rich_help_panel=_SERVER)]
Out = Annotated[Path | None, typer.Option(help="Directory.", rich_help_panel=_OUTPUT)]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Only the answer.", rich_help_panel=_OUTPUT)]


def shrink_command(
    *,
    run: Annotated[Path, typer.Argument(help="The directory of a run that failed.")],
    launch: Launch = None,
    preset: Preset = None,
    value: Value = None,
    server: Server = None,
    reset: Reset = None,
    twin: Twin = None,
    twin_launch: TwinLaunch = None,
    knob: Annotated[
        str | None,
        typer.Option(
            help="The {placeholder} that sizes the pool: made smaller first, from its --value.", rich_help_panel=_SEARCH
        ),
    ] = None,
    resolution: Annotated[
        str | None, typer.Option(help="Of the knob. Default: 1 of its unit.", rich_help_panel=_SEARCH)
    ] = None,
    knob_format: Annotated[
        str | None, typer.Option(help="How the server wants the knob: '{bytes}'.", rich_help_panel=_SEARCH)
    ] = None,
    budget: Annotated[str, typer.Option(help="Launches (200) or time (2h) at most.", rich_help_panel=_SEARCH)] = "200",
    data: Data = None,
    keep_text: Annotated[
        bool, typer.Option("--keep-text", help="Write text of private data too.", rich_help_panel=_OUTPUT)
    ] = False,
    model: Model = None,
    header: Header = None,
    api_key_env: KeyEnv = None,
    timeout: Timeout = None,
    ready_timeout: Ready = "600s",
    env: Env = None,
    cwd: Cwd = None,
    stop: Stop = None,
    out: Out = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Begin again instead of going on.", rich_help_panel=_OUTPUT)
    ] = False,
    quiet: Quiet = False,
) -> None:
    """Cut a failed run down to the few requests that break the server: repro.json, repro.py and ISSUE.md.

    A fresh server for every probe. Called again, a search that was cut off goes on. Exit code: 0 it is as small as
    it gets, 125 it could not be repeated or a bound came first, 2 wrong call, 130 interrupted.
    """
    import anyio
    from rich.console import Console

    from kvstress.cli.bisect import _budget
    from kvstress.cli.launching import launching, pairs
    from kvstress.cli.run import key_header
    from kvstress.harness import inputs
    from kvstress.harness.launching import preset_form, template
    from kvstress.harness.options import RunOptions
    from kvstress.harness.shrink import LAUNCHES, ShrinkOptions, carry_out, plan
    from kvstress.store.rundir import read_manifest

    manifest = read_manifest(run)
    launches, seconds = _budget(budget)
    options = RunOptions(
        server=server,
        twin=twin,
        twin_launch=twin_launch,
        launch=template(launch, preset),
        workload=manifest.workload,
        model=model,
        out=out,
        headers={**inputs.parse_headers(header or []), **key_header(api_key_env)},
        api_key_env=api_key_env,
        timeout=manifest.timeout if timeout is None else duration(timeout),
        ready_timeout=duration(ready_timeout),
        time_scale=manifest.time_scale,
        launching=launching(env, cwd, stop, None, None),
    )
    search = plan(
        ShrinkOptions(
            run=run,
            options=options,
            data=data,
            knob=knob,
            values=pairs("--value", value),
            resolution=resolution,
            form=knob_format or preset_form(preset),
            reset=reset,
            launches=LAUNCHES if launches is None else launches,
            seconds=seconds,
            keep_text=keep_text,
            overwrite=overwrite,
        )
    )
    console = Console(highlight=False, soft_wrap=True)
    say = partial(console.print, markup=False)
    say(f"shrink {search.case.size()}, at most {search.asked.launches} launches; kept in {search.folder}")
    tell = (lambda words: None) if quiet else say
    settings = {"use_uvloop": sys.platform != "win32"}
    found = anyio.run(partial(carry_out, search, tell=tell), backend="asyncio", backend_options=settings)
    value_now = search.value(found.case)
    where = f", {knob} {value_now}" if value_now else ""
    say(f"{search.case.size()} -> {found.case.size()}{where}", style="bold")
    say(f"failed in {found.failed} of {found.probes} probes; {found.launches} launches")
    if found.case.size().requests == 1:
        say("it fails at the first request that a fresh server gets")
    if found.why:
        say(f"not finished: {found.why}; the best so far is kept")
    for name in ("repro.py", "repro.json", "ISSUE.md"):
        say(str(search.folder / name))
    raise typer.Exit(125 if found.why else 0)


def replay_command(
    *,
    repro: Annotated[Path, typer.Argument(help="A repro.json, or the directory that shrink wrote.")],
    launch: Launch = None,
    preset: Preset = None,
    value: Value = None,
    server: Server = None,
    reset: Reset = None,
    twin: Twin = None,
    twin_launch: TwinLaunch = None,
    model: Model = None,
    header: Header = None,
    api_key_env: KeyEnv = None,
    timeout: Timeout = None,
    ready_timeout: Ready = "600s",
    env: Env = None,
    cwd: Cwd = None,
    stop: Stop = None,
    out: Out = None,
    quiet: Quiet = False,
) -> None:
    """Send a reproducer to a fresh server: FIXED, STILL FAILS, FAILS DIFFERENTLY or CANNOT TELL.

    Exit code: 0 FIXED, 1 a failure, 125 CANNOT TELL, 2 wrong call, 130 interrupted.
    """
    import anyio
    from rich.console import Console

    from kvstress.cli.launching import filled_in, launching
    from kvstress.cli.run import key_header
    from kvstress.harness import inputs
    from kvstress.harness.options import RunOptions
    from kvstress.harness.replay import replay
    from kvstress.store.repro import read

    facts = read(repro).facts
    options = RunOptions(
        server=server,
        twin=twin,
        twin_launch=twin_launch,
        launch=filled_in(launch, preset, value),
        workload=facts.workload,
        model=model,
        out=out,
        headers={**inputs.parse_headers(header or []), **key_header(api_key_env)},
        api_key_env=api_key_env,
        timeout=facts.timeout if timeout is None else duration(timeout),
        ready_timeout=duration(ready_timeout),
        time_scale=facts.time_scale,
        launching=launching(env, cwd, stop, None, None),
    )
    console = Console(highlight=False, soft_wrap=True)
    say = partial(console.print, markup=False)
    tell = (lambda words: None) if quiet else say
    settings = {"use_uvloop": sys.platform != "win32"}
    found = anyio.run(replay, repro, options, reset, tell, backend="asyncio", backend_options=settings)
    say(found.answer.value, style="bold")
    say(found.why)
    if (found.path / "report.html").exists():
        say(str(found.path / "report.html"))
    raise typer.Exit(found.answer.exit_code)
