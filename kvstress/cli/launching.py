"""What `run` and `bisect` share about starting a server: option types, and the record made of them."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from kvstress.harness.launching import Launching

_PANEL = "Launched server"
Preset = Annotated[
    str | None,
    typer.Option(
        help="A launch command by name: flare, vllm, sglang, llama-server, transformers, reference.",
        rich_help_panel=_PANEL,
    ),
]
Value = Annotated[
    list[str] | None,
    typer.Option("--value", help="NAME=VALUE for a {NAME} of the launch command; repeatable.", rich_help_panel=_PANEL),
]
Env = Annotated[
    list[str] | None,
    typer.Option("--env", help="NAME=VALUE added to the server's environment; repeatable.", rich_help_panel=_PANEL),
]
Cwd = Annotated[Path | None, typer.Option(help="The server's working directory.", rich_help_panel=_PANEL)]
Stop = Annotated[
    str | None,
    typer.Option(
        "--stop", help="Command that ends the server, for containers: 'docker stop NAME'.", rich_help_panel=_PANEL
    ),
]
LogPattern = Annotated[
    list[str] | None,
    typer.Option(
        "--log-pattern",
        help="Regular expression; matching lines of the server's log are recorded.",
        rich_help_panel=_PANEL,
    ),
]
OnFailure = Annotated[
    str | None,
    typer.Option(
        "--on-failure",
        help="Command run at a failure while the server is still up ({url}, {port}, {pid}); its output is kept in "
        "on-failure.txt.",
        rich_help_panel=_PANEL,
    ),
]
LogFile = Annotated[
    Path | None,
    typer.Option("--log-file", help="Where the server's output goes instead of server.log.", rich_help_panel=_PANEL),
]
Hold = Annotated[bool, typer.Option("--hold", help="Leave the server running after a failure.", rich_help_panel=_PANEL)]


def pairs(flag: str, given: Sequence[str] | None) -> Mapping[str, str]:
    """`NAME=VALUE` options; UsageError for one without a sign."""
    from kvstress.core.errors import UsageError

    split = [pair.partition("=") for pair in given or ()]
    if any(not sign or not name.strip() for name, sign, _ in split):
        raise UsageError(f"{flag}: expected NAME=VALUE (what was given is not shown, it may hold a secret)")
    return {name.strip(): value for name, _, value in split}


def launching(
    env: Sequence[str] | None,
    cwd: Path | None,
    stop: str | None,
    log_pattern: Sequence[str] | None,
    on_failure: str | None,
    *,
    log_file: Path | None = None,
    hold: bool = False,
) -> "Launching":
    """The record of these options."""
    from kvstress.harness.launching import Launching

    return Launching(
        env=pairs("--env", env),
        cwd=cwd,
        stop=stop,
        patterns=tuple(log_pattern or ()),
        on_failure=on_failure,
        log_file=log_file,
        hold=hold,
    )


def filled_in(launch: str | None, preset: str | None, given: Sequence[str] | None) -> str | None:
    """The launch command with its `--value`s in place; None when no server is to be launched."""
    from kvstress.core.errors import UsageError
    from kvstress.harness.launching import template, with_values

    command, values = template(launch, preset), pairs("--value", given)
    if command is None and values:
        raise UsageError("--value fills a placeholder of --launch or --preset, and neither was given")
    return with_values(command, values) if command and values else command


def tell_held(run: Path) -> None:
    """Say on stderr where a server was left running, and how to end it."""
    from kvstress.harness.launching import HELD_FILE

    held = run / HELD_FILE
    if held.exists():
        typer.echo(f"kvstress: the server was {held.read_text(encoding='utf-8').strip()}", err=True)
