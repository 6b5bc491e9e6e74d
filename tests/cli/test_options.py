"""Options that commands share are declared once, and typer sees each of them."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any

import pytest
import typer
from typer.testing import CliRunner

from kvstress.cli.main import app
from kvstress.cli.options import budget, flat
from kvstress.core.errors import UsageError

_OWN = {
    "--dry-run",
    "--out",
    "--overwrite",
    "--knob",
    "--knob-format",
    "--resolution",
    "--budget",
    "--timeout",
    "--json",
    "--quiet",
}


def _said(command: Any) -> Iterator[tuple[str, str]]:
    """Each option of `command` and of those below it, with its help."""
    for below in getattr(command, "commands", {}).values():
        yield from _said(below)
    yield from ((option.opts[0], option.help) for option in command.params if option.opts[0].startswith("-"))


def test_an_option_that_commands_share_says_the_same_everywhere() -> None:
    said: dict[str, set[str]] = defaultdict(set)
    for name, words in _said(typer.main.get_command(app)):
        said[name].add(words)
    assert len(said) > 40
    assert not {name: words for name, words in said.items() if len(words) > 1 and name not in _OWN}


@dataclass(frozen=True, kw_only=True)
class _Group:
    low: Annotated[int, typer.Option(help="Needed.")]
    names: Annotated[list[str] | None, typer.Option("--name")] = None


def _grouped(*, first: Annotated[str, typer.Argument()], group: _Group, last: bool = False) -> None:
    """Show what came."""
    typer.echo(f"{first} {group.low} {group.names} {last}")


@pytest.mark.parametrize(
    ("typed", "shown"),
    [
        (["a", "--low", "3"], "a 3 None False"),
        (["a", "--low", "3", "--name", "x", "--name", "y", "--last"], "a 3 ['x', 'y'] True"),
    ],
)
def test_a_group_arrives_as_its_record(typed: list[str], shown: str) -> None:
    grouped = typer.Typer()
    grouped.command()(flat(_grouped))
    assert CliRunner().invoke(grouped, typed).output.strip() == shown


def test_a_field_without_a_default_must_be_given() -> None:
    grouped = typer.Typer()
    grouped.command()(flat(_grouped))
    assert CliRunner().invoke(grouped, ["a"]).exit_code == 2


def test_a_budget_is_launches_or_a_time() -> None:
    assert [budget(None), budget("20"), budget("2h")] == [(None, None), (20, None), (None, 7200.0)]
    with pytest.raises(UsageError):
        budget("many")
