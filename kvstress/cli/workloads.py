"""`kvstress workloads`: what can be sent."""

from typing import Annotated

import typer

workloads_app = typer.Typer(help="List, show and check workloads.", no_args_is_help=True)


@workloads_app.command("list")
def list_command() -> None:
    """Name each shipped workload and the bug it hunts."""
    from kvstress.harness.catalogue import shipped

    for name, hunts in shipped():
        typer.echo(f"{name:<14} {hunts}")


@workloads_app.command("show")
def show_command(
    name: Annotated[str, typer.Argument(help="A shipped workload's name, or a .toml file.")],
    steps: Annotated[int, typer.Option(min=0, help="Also print the first steps as they would be sent.")] = 0,
    seed: Annotated[int, typer.Option(help="Same seed, same prompts.")] = 0,
) -> None:
    """Print a workload's file, and what it would send, without a server."""
    from kvstress.harness.catalogue import preview

    for line in preview(name, steps=steps, seed=seed):
        typer.echo(line)


@workloads_app.command("validate")
def validate_command(names: Annotated[list[str], typer.Argument(help="Names or .toml files.")]) -> None:
    """Check workload files; exit code 2 names the first mistake."""
    from kvstress.harness.catalogue import check

    for name in names:
        typer.echo(f"{name}: {check(name)}")
