"""`kvstress workloads`: what can be sent."""

from pathlib import Path
from typing import Annotated, Literal

import typer

workloads_app = typer.Typer(help="List, show and check workloads.", no_args_is_help=True)


Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def _print(value: object) -> None:
    from json import dumps

    typer.echo(dumps(value, indent=2, ensure_ascii=False))


@workloads_app.command("list")
def list_command(json: Json = False) -> None:
    """Name each shipped workload and the bug it hunts."""
    from kvstress.harness.catalogue import shipped

    if json:
        _print(shipped())
        return
    for one in shipped():
        typer.echo(f"{one['name']:<14} {one['hunts']}")


@workloads_app.command("show")
def show_command(
    name: Annotated[str, typer.Argument(help="A shipped workload's name, or a .toml file.")],
    steps: Annotated[int, typer.Option(min=0, help="Also print the first steps as they would be sent.")] = 0,
    seed: Annotated[int, typer.Option(help="Same seed, same prompts.")] = 0,
    json: Json = False,
) -> None:
    """Print a workload's file, and what it would send, without a server."""
    from kvstress.harness.catalogue import preview, whole

    if json:
        _print(whole(name, steps=steps, seed=seed))
        return
    for line in preview(name, steps=steps, seed=seed):
        typer.echo(line)


@workloads_app.command("validate")
def validate_command(
    names: Annotated[list[str], typer.Argument(help="Names or .toml files.")], json: Json = False
) -> None:
    """Check workload files; exit code 2 names the first mistake (with --json, each one's)."""
    from kvstress.harness.catalogue import check, checked

    if json:
        found = checked(names)
        _print(found)
        raise typer.Exit(0 if all(one["ok"] for one in found) else 2)
    for name in names:
        typer.echo(f"{name}: {check(name)}")


@workloads_app.command("import")
def import_command(
    trace: Annotated[Path, typer.Argument(help="A trace, or a directory of files in one format.")],
    out: Annotated[Path, typer.Option(help="The workload to write; the trace's turns go beside it as .jsonl.")],
    trace_format: Annotated[
        str | None, typer.Option("--format", help="What it is in. Default: told by its first keys.")
    ] = None,
    history: Annotated[
        Literal["delta", "cumulative"] | None,
        typer.Option(help="Whether rows with messages hold the new ones or all. Default: looked up."),
    ] = None,
    block_size: Annotated[
        int | None, typer.Option(min=1, max=1_000_000, help="Tokens of a block of hash_ids. Default: the format's.")
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace what is there.")] = False,
) -> None:
    """Make a workload of somebody's trace, to be run as it was or faster.

    Mooncake (and aiperf's), ShareGPT, vLLM multi-turn, SWE-agent, OpenAI request logs, HAR, OpenTelemetry GenAI spans,
    BurstGPT, qwen-bailian, Weka. Exit code 2 names the line of a row that has no prompt.
    """
    from kvstress.harness.importing import import_trace

    found = import_trace(trace, out, trace_format, overwrite=overwrite, history=history, block=block_size)
    for line in found.told:
        typer.echo(line)
    typer.echo(f"written: {found.workload} and {found.trace}")


@workloads_app.command("prepare")
def prepare_command(
    dataset: Annotated[str, typer.Argument(help="speedbench")],
    source: Annotated[Path, typer.Option("--from", help="Directory with your copy of its files.")],
    out: Annotated[Path, typer.Option(help="Directory for what `run --data` reads.")],
) -> None:
    """Make a dataset's files ready for `run --data`, with a digest of every prompt."""
    from kvstress.core.errors import UsageError
    from kvstress.harness.preparing import FINGERPRINTS, prepare_speedbench

    if dataset != "speedbench":
        raise UsageError(f"no dataset named {dataset!r}: there is speedbench")
    for one in prepare_speedbench(source, out):
        typer.echo(one.line())
    typer.echo(f"digests of all prompts: {out / FINGERPRINTS}")
