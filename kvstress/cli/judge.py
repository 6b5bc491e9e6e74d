"""`kvstress judge`."""

from pathlib import Path
from typing import Annotated

import typer


def judge_command(
    run: Annotated[Path, typer.Argument(help="A run directory.")],
    json: Annotated[bool, typer.Option("--json", help="Print verdict.json.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Only the verdict.")] = False,
) -> None:
    """Judge a stored run again and rebuild all its files, without a server.

    Needs only manifest.json and events.jsonl. Exit code: 0 PASS, 1 FAIL, 125 could not judge.
    """
    from rich.console import Console

    from kvstress.cli.show import show_result
    from kvstress.harness.stored import judge_run

    manifest, judgement = judge_run(run)
    show_result(Console(highlight=False), run, manifest, judgement, json=json, quiet=quiet)
    raise typer.Exit(judgement.verdict.exit_code)
