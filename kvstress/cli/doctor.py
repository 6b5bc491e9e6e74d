"""`kvstress doctor`."""

import sys
from typing import TYPE_CHECKING

import typer

from kvstress.cli.launching import Launched
from kvstress.cli.options import CaFile, Dialect, Json, Requests, Server

if TYPE_CHECKING:
    from kvstress.core.diagnosis import Diagnosis


def doctor_command(
    *,
    server: Server = None,
    launched: Launched,
    requests: Requests,
    ca_file: CaFile = None,
    dialect: Dialect = None,
    json: Json = False,
) -> None:
    """Ask a server a few short things: what it is, and which oracles and coverage keys can be had on it.

    Also says how fast kvstress itself is on this machine. Exit code: 0 when the server could be examined, 125 not.
    """
    import anyio

    from kvstress.harness.doctor import examine
    from kvstress.harness.options import RunOptions
    from kvstress.report.diagnosis import lines

    options = RunOptions(
        server=server,
        launch=launched.filled_in(),
        launching=launched.launching(),
        workload="speedbench",
        ca_file=ca_file,
        dialect=dialect,
        **requests.asked(),
    )
    found = anyio.run(examine, options, backend_options={"use_uvloop": sys.platform != "win32"})
    typer.echo(_as_json(found) if json else "\n".join(lines(found)))


def _as_json(found: "Diagnosis") -> str:
    import msgspec

    return msgspec.json.format(msgspec.json.encode(found), indent=1).decode()
