"""How a command starts a server: its options as one group, and the record made of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from kvstress.harness.launching import Launching

_PANEL = "Launched server"
LogFile = Annotated[
    Path | None,
    typer.Option("--log-file", help="Where the server's output goes instead of server.log.", rich_help_panel=_PANEL),
]
Hold = Annotated[bool, typer.Option("--hold", help="Leave the server running after a failure.", rich_help_panel=_PANEL)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Launched:
    """The command that starts a server, and its surroundings."""

    launch: Annotated[
        str | None,
        typer.Option(
            help="Command that starts the server; {port} is replaced by a free port.", rich_help_panel="Server"
        ),
    ] = None
    preset: Annotated[
        str | None,
        typer.Option(
            help="A launch command by name: flare, vllm, sglang, llama-server, transformers, reference.",
            rich_help_panel=_PANEL,
        ),
    ] = None
    value: Annotated[
        list[str] | None,
        typer.Option(help="NAME=VALUE for a {NAME} of the launch command; repeatable.", rich_help_panel=_PANEL),
    ] = None
    env: Annotated[
        list[str] | None,
        typer.Option(help="NAME=VALUE added to the server's environment; repeatable.", rich_help_panel=_PANEL),
    ] = None
    cwd: Annotated[Path | None, typer.Option(help="The server's working directory.", rich_help_panel=_PANEL)] = None
    stop: Annotated[
        str | None,
        typer.Option(help="Command that ends the server, for containers: 'docker stop NAME'.", rich_help_panel=_PANEL),
    ] = None

    def values(self) -> Mapping[str, str]:
        """What `--value` names; UsageError for one without a sign."""
        return _pairs("--value", self.value)

    def open(self) -> str | None:
        """The launch command with its {placeholders}; None when no server is to be launched."""
        from kvstress.harness.launching import template

        return template(self.launch, self.preset)

    def filled_in(self) -> str | None:
        """The launch command with its `--value`s in place; None when no server is to be launched."""
        from kvstress.core.errors import UsageError
        from kvstress.harness.launching import with_values

        command, values = self.open(), self.values()
        if command is None and values:
            raise UsageError("--value fills a placeholder of --launch or --preset, and neither was given")
        return with_values(command, values) if command and values else command

    def form(self, asked: str | None) -> str | None:
        """How a knob is written for this server: as `asked`, or as the preset's engine wants it."""
        from kvstress.harness.launching import preset_form

        return asked or preset_form(self.preset)

    def launching(self, watched: "Watched | None" = None, **more: Any) -> "Launching":
        """The record of these options; `more` are fields of it that one command alone offers."""
        from kvstress.harness.launching import Launching

        return Launching(
            env=_pairs("--env", self.env),
            cwd=self.cwd,
            stop=self.stop,
            patterns=tuple(watched.log_pattern or ()) if watched else (),
            on_failure=watched.on_failure if watched else None,
            **more,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """What is looked for while the server is up."""

    log_pattern: Annotated[
        list[str] | None,
        typer.Option(
            help="Regular expression; matching lines of the server's log are recorded.", rich_help_panel=_PANEL
        ),
    ] = None
    on_failure: Annotated[
        str | None,
        typer.Option(
            help="Command run at a failure while the server is still up ({url}, {port}, {pid}); its output is kept in "
            "on-failure.txt.",
            rich_help_panel=_PANEL,
        ),
    ] = None


def _pairs(flag: str, given: Sequence[str] | None) -> Mapping[str, str]:
    """`NAME=VALUE` options; UsageError for one without a sign."""
    from kvstress.core.errors import UsageError

    split = [pair.partition("=") for pair in given or ()]
    if any(not sign or not name.strip() for name, sign, _ in split):
        raise UsageError(f"{flag}: expected NAME=VALUE (what was given is not shown, it may hold a secret)")
    return {name.strip(): value for name, _, value in split}


def tell_held(run: Path) -> None:
    """Say on stderr where a server was left running, and how to end it."""
    from kvstress.harness.launching import HELD_FILE

    held = run / HELD_FILE
    if held.exists():
        typer.echo(f"kvstress: the server was {held.read_text(encoding='utf-8').strip()}", err=True)
