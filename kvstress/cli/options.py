"""The options that commands share, grouped as their help groups them, and how a command takes a whole group.

Typer reads a flat signature, and five commands that each listed forty options said the same thing in five ways. Here
an option is declared once, a command names the groups that it takes (`load: Load`), and `flat` lays their fields out
for typer and packs what was typed into their records again.
"""

import os
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from kvstress.core.units import duration

_SERVER, _LOAD, _END, _OUTPUT = "Server", "Workload", "When to stop", "Output"
Server = Annotated[
    str | None,
    typer.Option(
        help="URL of a server that runs, or 'reference' for the embedded one (with its arguments: 'reference "
        "--memory-limit 50G').",
        rich_help_panel=_SERVER,
    ),
]
CaFile = Annotated[Path | None, typer.Option(help="Certificate authority of an https server.", rich_help_panel=_SERVER)]
Dialect = Annotated[
    str | None,
    typer.Option(help="Metric names to expect, instead of what the page shows.", rich_help_panel=_SERVER),
]
Timeout = Annotated[str, typer.Option(help="Deadline of one request; past it, it is LOST.", rich_help_panel=_SERVER)]
RecordedTimeout = Annotated[
    str | None,
    typer.Option(
        "--timeout", help="Deadline of one request; past it, it is LOST. Default: as recorded.", rich_help_panel=_SERVER
    ),
]
Reset = Annotated[
    str | None,
    typer.Option(help="Command that restarts the server at --server, run before each probe.", rich_help_panel=_SERVER),
]
Data = Annotated[
    Path | None,
    typer.Option(
        help="Directory with prepared dataset files (speedbench: throughput_16k.jsonl …).", rich_help_panel=_LOAD
    ),
]
Stream = Annotated[
    bool | None, typer.Option("--stream/--no-stream", help="Default: the workload's.", rich_help_panel=_LOAD)
]
Asides = Annotated[
    bool, typer.Option("--asides/--no-asides", help="Probes beside the workload.", rich_help_panel=_LOAD)
]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON.", rich_help_panel=_OUTPUT)]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print only the result.", rich_help_panel=_OUTPUT)]
Anew = Annotated[bool, typer.Option("--overwrite", help="Begin again instead of going on.", rich_help_panel=_OUTPUT)]
AllowReference = Annotated[
    bool,
    typer.Option(
        "--allow-reference", help="Take runs of the embedded reference server.", rich_help_panel="What is required"
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Twins:
    """The second process that answers cold."""

    twin: Annotated[
        str | None,
        typer.Option(help="URL of a second process of the server, which answers cold.", rich_help_panel=_SERVER),
    ] = None
    twin_launch: Annotated[
        str | None,
        typer.Option(help="Command with {port} that starts such a second process beside it.", rich_help_panel=_SERVER),
    ] = None

    def asked(self) -> dict[str, Any]:
        """These options as `RunOptions` names them."""
        return {"twin": self.twin, "twin_launch": self.twin_launch}


@dataclass(frozen=True, slots=True, kw_only=True)
class Requests:
    """What every request carries, and how long a server may take to come up."""

    model: Annotated[str | None, typer.Option(help="Default: the first of /v1/models.", rich_help_panel=_SERVER)] = None
    header: Annotated[
        list[str] | None,
        typer.Option(help="'Name: value' sent with every request; never stored or shown.", rich_help_panel=_SERVER),
    ] = None
    api_key_env: Annotated[
        str | None, typer.Option(help="Environment variable that holds the API key.", rich_help_panel=_SERVER)
    ] = None
    ready_timeout: Annotated[
        str, typer.Option(help="How long a launched server may take to answer.", rich_help_panel=_SERVER)
    ] = "600s"

    def asked(self) -> dict[str, Any]:
        """These options as `RunOptions` names them; UsageError for one that cannot be read."""
        from kvstress.harness.inputs import parse_headers

        return {
            "model": self.model,
            "headers": {**parse_headers(self.header or []), **_key_header(self.api_key_env)},
            "api_key_env": self.api_key_env,
            "ready_timeout": duration(self.ready_timeout),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What is sent, and when that ends."""

    workload: Annotated[
        str, typer.Option(help="A shipped workload's name, or a .toml file.", rich_help_panel=_LOAD)
    ] = "speedbench"
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", help="key=value: any setting of the workload; may be repeated.", rich_help_panel=_LOAD),
    ] = None
    data: Data = None
    seed: Annotated[int, typer.Option(help="Same seed, same prompts.", rich_help_panel=_LOAD)] = 0
    max_steps: Annotated[int | None, typer.Option(min=1, help="Steps of a run at most.", rich_help_panel=_END)] = None
    max_duration: Annotated[
        str | None, typer.Option(help="Time of a run at most, such as 25m.", rich_help_panel=_END)
    ] = None

    def asked(self) -> dict[str, Any]:
        """These options as `RunOptions` names them; UsageError for one that cannot be read."""
        from kvstress.harness.inputs import parse_settings

        return {
            "workload": self.workload,
            "settings": parse_settings(self.settings or []),
            "data": self.data,
            "seed": self.seed,
            "max_steps": self.max_steps,
            "max_duration": None if self.max_duration is None else duration(self.max_duration),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Labelled:
    """What the runs are labelled with."""

    commit: Annotated[str | None, typer.Option(help="The server's commit, as a label.", rich_help_panel=_OUTPUT)] = None
    hardware: Annotated[
        str | None, typer.Option(help="The machine under test, as a label.", rich_help_panel=_OUTPUT)
    ] = None

    def asked(self) -> dict[str, Any]:
        """These options as `RunOptions` names them."""
        return {"commit": self.commit, "hardware": self.hardware}


def flat(command: Callable[..., None]) -> Callable[..., None]:
    """`command` as typer can read it: instead of each parameter that is a group, one for each field of the group."""
    groups: dict[str, Any] = {name: kind for name, kind in get_type_hints(command).items() if is_dataclass(kind)}

    def called(**typed: Any) -> None:
        packed = {
            name: kind(**{one.name: typed.pop(one.name) for one in fields(kind)}) for name, kind in groups.items()
        }
        command(**packed, **typed)

    called.__doc__ = command.__doc__
    called.__signature__ = Signature(  # type: ignore[attr-defined]
        [option for each in signature(command).parameters.values() for option in _laid_out(each, groups.get(each.name))]
    )
    return called


def _laid_out(parameter: Parameter, group: Any) -> list[Parameter]:
    if group is None:
        return [parameter]
    return [
        Parameter(
            field.name,
            Parameter.KEYWORD_ONLY,
            default=Parameter.empty if field.default is MISSING else field.default,
            annotation=field.type,
        )
        for field in fields(group)
    ]


def budget(text: str | None) -> tuple[int | None, float | None]:
    """Launches and seconds at most: a plain number is launches, a number with a unit time."""
    if text is None:
        return None, None
    return (int(text), None) if text.strip().isdecimal() else (None, duration(text))


def _key_header(variable: str | None) -> Mapping[str, str]:
    """The header that carries the API key of that environment variable; none without one."""
    key = os.environ.get(variable, "") if variable else ""
    return {"Authorization": f"Bearer {key}"} if key else {}
