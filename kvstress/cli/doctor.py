"""`kvstress doctor`."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from kvstress.core.diagnosis import Diagnosis


def doctor_command(
    server: Annotated[
        str | None, typer.Option(help="URL of a server that runs, or 'reference' for the embedded one.")
    ] = None,
    launch: Annotated[str | None, typer.Option(help="Command that starts the server; {port} is replaced.")] = None,
    model: Annotated[str | None, typer.Option(help="Default: the first of /v1/models.")] = None,
    header: Annotated[
        list[str] | None, typer.Option(help="'Name: value' sent with every request; never shown.")
    ] = None,
    api_key_env: Annotated[str | None, typer.Option(help="Environment variable that holds the API key.")] = None,
    ca_file: Annotated[Path | None, typer.Option(help="Certificate authority of an https server.")] = None,
    dialect: Annotated[str | None, typer.Option(help="Metric names to expect.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the diagnosis as JSON.")] = False,
) -> None:
    """Ask a server a few short things: what it is, and which oracles and coverage keys can be had on it.

    Also says how fast kvstress itself is on this machine. Exit code: 0 when the server could be examined, 125 not.
    """
    import anyio

    from kvstress.cli.run import key_header
    from kvstress.harness import inputs
    from kvstress.harness.doctor import examine
    from kvstress.harness.options import RunOptions
    from kvstress.report.diagnosis import lines

    options = RunOptions(
        server=server,
        launch=launch,
        workload="speedbench",
        model=model,
        headers=dict(inputs.parse_headers(header or [])) | key_header(api_key_env),
        api_key_env=api_key_env,
        ca_file=ca_file,
        dialect=dialect,
    )
    found = anyio.run(examine, options, backend_options={"use_uvloop": sys.platform != "win32"})
    typer.echo(_as_json(found) if json else "\n".join(lines(found)))


def _as_json(found: "Diagnosis") -> str:
    import msgspec

    return msgspec.json.format(msgspec.json.encode(found), indent=1).decode()
