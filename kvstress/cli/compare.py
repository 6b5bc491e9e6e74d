"""`kvstress compare`."""

import json as json_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.table import Table

_WITH = "--with"
Sides = Annotated[
    list[str],
    typer.Argument(metavar="BASE… --with HEAD…", help="Run directories of both sides.", show_default=False),
]


def compare_command(
    *,
    sides: Sides,
    out: Annotated[Path, typer.Option(help="Directory for compare.json and compare.html.")] = Path("reports/compare"),
    json: Annotated[bool, typer.Option("--json", help="Print compare.json.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Only the verdict.")] = False,
) -> None:
    """Hold two sets of runs against each other: first failure, fill, findings, latency, throughput.

    Exit code: 0 when they were compared, whatever came out; 2 when they cannot be, 125 when a run is damaged.
    """
    from rich.console import Console

    from kvstress.harness.compare import compare_runs, write

    base, head = _split(sides)
    found = compare_runs(base, head)
    content = write(found, out)
    if json:
        typer.echo(json_module.dumps(content, ensure_ascii=False, indent=2))
        return
    typer.echo(f"{content['verdict']}: {content['said']}")
    if not quiet:
        Console().print(_table(content["rows"]))
        typer.echo(str(out / "compare.html"))


def _split(words: list[str]) -> tuple[list[Path], list[Path]]:
    """The runs before `--with` and those after it. An option that takes several values is nothing typer knows."""
    from kvstress.core.errors import UsageError

    unknown = next((word for word in words if word.startswith("-") and word != _WITH), None)
    if unknown is not None:
        raise UsageError(f"no such option: {unknown}")
    if words.count(_WITH) != 1:
        raise UsageError("name the runs of both sides: kvstress compare BASE… --with HEAD…")
    place = words.index(_WITH)
    return [Path(word) for word in words[:place]], [Path(word) for word in words[place + 1 :]]


def _table(rows: list[dict[str, object]]) -> "Table":
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for name in ("metric", "base", "head", "ratio", "verdict"):
        table.add_column(name, overflow="fold")
    for row in rows:
        cells = (row["metric"], row["base"], row["head"], _ratio(row), row["verdict"])
        table.add_row(*(_plain(cell) for cell in cells))
    return table


def _ratio(row: dict[str, object]) -> str:
    ratio, interval = row["ratio"], row["interval"]
    if not isinstance(ratio, float):
        return ""
    return f"{ratio:.3f}" + (f" ({interval[0]:.3f} to {interval[1]:.3f})" if isinstance(interval, tuple | list) else "")


def _plain(cell: object) -> str:
    from rich.markup import escape

    from kvstress.report.hostile import line

    return escape(line(str(cell), 120))
