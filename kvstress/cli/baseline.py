"""`kvstress baseline`: a small history of accepted runs, plain files."""

import json as json_module
from pathlib import Path
from typing import Annotated

import typer

from kvstress.cli.gate import Limit
from kvstress.cli.options import AllowReference, Labelled, flat

baseline_app = typer.Typer(help="Keep a small history of accepted runs, to gate against.", no_args_is_help=True)
Folder = Annotated[Path, typer.Argument(help="The history's directory.")]


@baseline_app.command("add")
@flat
def add_command(
    *,
    folder: Folder,
    runs: Annotated[list[Path], typer.Argument(help="Run directories.")],
    labelled: Labelled,
    limit: Limit = None,
    accept_failing: Annotated[
        bool, typer.Option("--accept-failing", help="Take runs that failed, as known failures.")
    ] = False,
    allow_reference: AllowReference = False,
) -> None:
    """Accept runs: each becomes one small file, DIR/WORKLOAD/LIMIT/HARDWARE/COMMIT/RUN.json."""
    from kvstress.harness.baseline import Accepting, Labels, accept

    labels = Labels(commit=labelled.commit, limit=limit, hardware=labelled.hardware)
    for path in accept(folder, runs, Accepting(labels=labels, failing=accept_failing, reference=allow_reference)):
        typer.echo(str(path))


@baseline_app.command("list")
def list_command(
    folder: Folder, json: Annotated[bool, typer.Option("--json", help="One JSON object a run.")] = False
) -> None:
    """List what was accepted, the oldest first."""
    from kvstress.harness.baseline import listed

    for row in listed(folder):
        typer.echo(json_module.dumps(row, ensure_ascii=False) if json else "  ".join(str(v) for v in row.values()))


@baseline_app.command("prune")
def prune_command(
    folder: Folder,
    keep: Annotated[int, typer.Option(min=1, help="Commits to keep of each workload, limit and hardware.")] = 30,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would go.")] = False,
) -> None:
    """Remove all but the newest commits of each kind; files that are not entries are never touched."""
    from kvstress.harness.baseline import prune

    for path in prune(folder, keep, dry_run=dry_run):
        typer.echo(f"{'would remove' if dry_run else 'removed'} {path}")


@baseline_app.command("page")
def page_command(
    folder: Folder, out: Annotated[Path, typer.Option(help="The page to write.")] = Path("reports/history.html")
) -> None:
    """Write first failure, fill, latency and throughput over the accepted commits as one page, changes marked."""
    from kvstress.harness.history import write

    write(folder, out)
    typer.echo(str(out))
