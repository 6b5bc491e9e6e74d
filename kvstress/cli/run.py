"""`kvstress run`."""

import os
import sys
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kvstress.cli.launching import (
    Cwd,
    Env,
    Hold,
    LogFile,
    LogPattern,
    OnFailure,
    Preset,
    Stop,
    Value,
    filled_in,
    launching,
    tell_held,
)
from kvstress.core.record import Record
from kvstress.core.units import duration

if TYPE_CHECKING:
    from kvstress.harness.options import RunOptions

_SERVER, _LOAD, _END, _OUTPUT = "Server", "Workload", "When to stop", "Output"
Server = Annotated[
    str | None,
    typer.Option(
        help="URL of a server that runs, or 'reference' for the embedded one (with its arguments: 'reference "
        "--memory-limit 50G').",
        rich_help_panel=_SERVER,
    ),
]
Launch = Annotated[
    str | None,
    typer.Option(help="Command that starts the server; {port} is replaced by a free port.", rich_help_panel=_SERVER),
]
Workload = Annotated[str, typer.Option(help="A shipped workload's name, or a .toml file.", rich_help_panel=_LOAD)]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", help="key=value: any setting of the workload; may be repeated.", rich_help_panel=_LOAD),
]
Data = Annotated[
    Path | None,
    typer.Option(
        help="Directory with prepared dataset files (speedbench: throughput_16k.jsonl …).", rich_help_panel=_LOAD
    ),
]
Twin = Annotated[
    str | None,
    typer.Option(help="URL of a second process of the server, which answers cold.", rich_help_panel=_SERVER),
]
TwinLaunch = Annotated[
    str | None,
    typer.Option(help="Command with {port} that starts such a second process beside it.", rich_help_panel=_SERVER),
]
Header = Annotated[
    list[str] | None,
    typer.Option(help="'Name: value' sent with every request; never stored or shown.", rich_help_panel=_SERVER),
]


def run_command(
    *,
    server: Server = None,
    launch: Launch = None,
    twin: Twin = None,
    twin_launch: TwinLaunch = None,
    preset: Preset = None,
    value: Value = None,
    env: Env = None,
    cwd: Cwd = None,
    stop: Stop = None,
    log_pattern: LogPattern = None,
    log_file: LogFile = None,
    on_failure: OnFailure = None,
    hold: Hold = False,
    workload: Workload = "speedbench",
    model: Annotated[
        str | None, typer.Option(help="Default: the first of /v1/models.", rich_help_panel=_SERVER)
    ] = None,
    header: Header = None,
    api_key_env: Annotated[
        str | None,
        typer.Option(help="Environment variable that holds the API key.", rich_help_panel=_SERVER),
    ] = None,
    ca_file: Annotated[
        Path | None, typer.Option(help="Certificate authority of an https server.", rich_help_panel=_SERVER)
    ] = None,
    timeout: Annotated[
        str, typer.Option(help="Deadline of one request; past it, it is LOST.", rich_help_panel=_SERVER)
    ] = "900s",
    ready_timeout: Annotated[
        str, typer.Option(help="How long a launched server may take to answer.", rich_help_panel=_SERVER)
    ] = "600s",
    trust_env: Annotated[
        bool, typer.Option("--trust-env", help="Use proxies named in the environment.", rich_help_panel=_SERVER)
    ] = False,
    dialect: Annotated[
        str | None,
        typer.Option(help="Metric names to expect, instead of what the page shows.", rich_help_panel=_SERVER),
    ] = None,
    set_: Set = None,
    data: Data = None,
    seed: Annotated[int, typer.Option(help="Same seed, same prompts.", rich_help_panel=_LOAD)] = 0,
    stream: Annotated[
        bool | None, typer.Option("--stream/--no-stream", help="Default: the workload's.", rich_help_panel=_LOAD)
    ] = None,
    asides: Annotated[
        bool, typer.Option("--asides/--no-asides", help="Probes beside the workload.", rich_help_panel=_LOAD)
    ] = True,
    workers: Annotated[
        int,
        typer.Option(
            min=1, max=256, help="Processes that send and read, when one cannot keep up.", rich_help_panel=_LOAD
        ),
    ] = 1,
    max_steps: Annotated[int | None, typer.Option(min=1, help="Steps at most.", rich_help_panel=_END)] = None,
    max_duration: Annotated[str | None, typer.Option(help="Such as 25m.", rich_help_panel=_END)] = None,
    time_scale: Annotated[
        float,
        typer.Option(
            min=0.01, max=100.0, help="Factor on how long silence may last and is watched.", rich_help_panel=_END
        ),
    ] = 1.0,
    keep_going: Annotated[
        bool, typer.Option("--keep-going", help="Do not stop at the first failure.", rich_help_panel=_END)
    ] = False,
    out: Annotated[
        Path | None, typer.Option(help="Run directory. Default: reports/runs/…", rich_help_panel=_OUTPUT)
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace an earlier run in --out.", rich_help_panel=_OUTPUT)
    ] = False,
    resume: Annotated[
        bool,
        typer.Option(
            "--resume", help="Go on with the killed run in --out, if the server is the same.", rich_help_panel=_OUTPUT
        ),
    ] = False,
    record: Annotated[
        Record, typer.Option(help="full (bodies too), text (answers), facts (neither).", rich_help_panel=_OUTPUT)
    ] = Record.TEXT,
    scrape_interval: Annotated[
        str, typer.Option(help="Between scrapes beside the load.", rich_help_panel=_OUTPUT)
    ] = "2s",
    commit: Annotated[
        str | None, typer.Option(help="The server's commit, as a label.", rich_help_panel=_OUTPUT)
    ] = None,
    hardware: Annotated[
        str | None, typer.Option(help="The machine under test, as a label.", rich_help_panel=_OUTPUT)
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print verdict.json.", rich_help_panel=_OUTPUT)] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Only the verdict.", rich_help_panel=_OUTPUT)] = False,
) -> None:
    """Drive a workload against a server up to its first failure; scrape, judge and report.

    Exit code: 0 PASS, 1 FAIL, 125 could not judge, 2 wrong call, 130 interrupted.
    """
    from kvstress.harness import inputs
    from kvstress.harness.options import RunOptions

    headers = dict(inputs.parse_headers(header or []))
    options = RunOptions(
        server=server,
        launch=filled_in(launch, preset, value),
        twin=twin,
        twin_launch=twin_launch,
        launching=launching(env, cwd, stop, log_pattern, on_failure, log_file=log_file, hold=hold),
        workload=workload,
        model=model,
        out=out,
        overwrite=overwrite,
        max_steps=max_steps,
        max_duration=None if max_duration is None else duration(max_duration),
        keep_going=keep_going,
        seed=seed,
        settings=inputs.parse_settings(set_ or []),
        data=data,
        headers=headers | key_header(api_key_env),
        api_key_env=api_key_env,
        ca_file=ca_file,
        timeout=duration(timeout),
        stream=stream,
        scrape_interval=duration(scrape_interval),
        dialect=dialect,
        asides=asides,
        resume=resume,
        record=record,
        commit=commit,
        hardware=hardware,
        trust_env=trust_env,
        ready_timeout=duration(ready_timeout),
        time_scale=time_scale,
        workers=workers,
    )
    raise typer.Exit(_carry_out(options, json=json, quiet=quiet))


def key_header(variable: str | None) -> dict[str, str]:
    """The header that carries the API key of that environment variable; none without one."""
    """The header that carries the key in the environment variable; none without one."""
    key = os.environ.get(variable, "") if variable else ""
    return {"Authorization": f"Bearer {key}"} if key else {}


def _carry_out(options: "RunOptions", *, json: bool, quiet: bool) -> int:
    import anyio
    from rich.console import Console

    from kvstress.cli.show import show_result
    from kvstress.core.manifest import Manifest
    from kvstress.harness.run import View, run
    from kvstress.report.terminal import live

    console = Console(stderr=json, highlight=False)

    def watching(manifest: Manifest) -> AbstractContextManager:  # type: ignore[type-arg]
        return nullcontext(lambda event: None) if quiet else live(console, manifest)

    view: View = watching
    result = anyio.run(run, options, view, backend="asyncio", backend_options={"use_uvloop": sys.platform != "win32"})
    show_result(console, result.path, result.manifest, result.judgement, json=json, quiet=quiet)
    tell_held(result.path)
    return result.exit_code
