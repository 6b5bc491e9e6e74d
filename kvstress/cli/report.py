"""`kvstress report`."""

from pathlib import Path
from typing import Annotated

import typer


def report_command(runs: Annotated[list[Path], typer.Argument(help="Run directories.")]) -> None:
    """Render the pages and tables of stored runs again, without a server. Exit code 0 when they were written."""
    from kvstress.harness.stored import judge_run

    for run in runs:
        judge_run(run)
        typer.echo(str(run / "report.html"))
