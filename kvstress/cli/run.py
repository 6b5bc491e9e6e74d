"""`kvstress run`."""

import sys
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kvstress.cli.launching import Hold, Launched, LogFile, Watched, tell_held
from kvstress.cli.options import (
    Asides,
    CaFile,
    Dialect,
    Json,
    Labelled,
    Load,
    Quiet,
    Requests,
    Server,
    Stream,
    Timeout,
    Twins,
)
from kvstress.core.record import Record
from kvstress.core.units import duration

if TYPE_CHECKING:
    from kvstress.harness.options import RunOptions

Workers = Annotated[
    int,
    typer.Option(
        min=1, max=256, help="Processes that send and read, when one cannot keep up.", rich_help_panel="Workload"
    ),
]
TrustEnv = Annotated[
    bool, typer.Option("--trust-env", help="Use proxies named in the environment.", rich_help_panel="Server")
]
TimeScale = Annotated[
    float,
    typer.Option(
        min=0.01,
        max=100.0,
        help="Factor on how long silence may last and is watched.",
        rich_help_panel="When to stop",
    ),
]
KeepGoing = Annotated[
    bool, typer.Option("--keep-going", help="Do not stop at the first failure.", rich_help_panel="When to stop")
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """Where the record of a run goes, and how much of it."""

    out: Annotated[
        Path | None, typer.Option(help="Run directory. Default: reports/runs/…", rich_help_panel="Output")
    ] = None
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace an earlier run in --out.", rich_help_panel="Output")
    ] = False
    resume: Annotated[
        bool,
        typer.Option(
            "--resume", help="Go on with the killed run in --out, if the server is the same.", rich_help_panel="Output"
        ),
    ] = False
    record: Annotated[
        Record, typer.Option(help="full (bodies too), text (answers), facts (neither).", rich_help_panel="Output")
    ] = Record.TEXT
    scrape_interval: Annotated[str, typer.Option(help="Between scrapes beside the load.", rich_help_panel="Output")] = (
        "2s"
    )

    def asked(self) -> dict[str, Any]:
        """These options as `RunOptions` names them; UsageError for one that cannot be read."""
        return asdict(self) | {"scrape_interval": duration(self.scrape_interval)}


def run_command(
    *,
    server: Server = None,
    launched: Launched,
    watched: Watched,
    log_file: LogFile = None,
    hold: Hold = False,
    twins: Twins,
    requests: Requests,
    timeout: Timeout = "900s",
    ca_file: CaFile = None,
    trust_env: TrustEnv = False,
    dialect: Dialect = None,
    load: Load,
    stream: Stream = None,
    asides: Asides = True,
    workers: Workers = 1,
    time_scale: TimeScale = 1.0,
    keep_going: KeepGoing = False,
    stored: Stored,
    labelled: Labelled,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Drive a workload against a server up to its first failure; scrape, judge and report.

    Exit code: 0 PASS, 1 FAIL, 125 could not judge, 2 wrong call, 130 interrupted.
    """
    from kvstress.harness.options import RunOptions

    options = RunOptions(
        server=server,
        launch=launched.filled_in(),
        launching=launched.launching(watched, log_file=log_file, hold=hold),
        timeout=duration(timeout),
        ca_file=ca_file,
        trust_env=trust_env,
        dialect=dialect,
        stream=stream,
        asides=asides,
        workers=workers,
        time_scale=time_scale,
        keep_going=keep_going,
        **twins.asked(),
        **requests.asked(),
        **load.asked(),
        **stored.asked(),
        **labelled.asked(),
    )
    raise typer.Exit(_carry_out(options, json=json, quiet=quiet))


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
