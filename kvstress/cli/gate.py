"""`kvstress gate`."""

import json as json_module
import os
import sys
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from kvstress.cli.launching import Launched
from kvstress.cli.options import AllowReference, Json, Labelled, Load, Quiet, Requests, Server, Timeout
from kvstress.core.units import duration

if TYPE_CHECKING:
    from kvstress.core.manifest import Manifest
    from kvstress.harness.gate import GateOptions, Verdicts
    from kvstress.harness.gate_runs import Making
    from kvstress.harness.options import RunOptions

_GATE, _MADE, _BISECT, _OUTPUT = "What is required", "Runs made here", "git bisect", "Output"
Runs = Annotated[list[Path] | None, typer.Argument(help="Run directories; none with --launch or --server.")]
Limit = Annotated[
    str | None, typer.Option(help="Memory limit, as a label. Default: read off the command.", rich_help_panel=_GATE)
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Required:
    """What the runs are held against."""

    baseline: Annotated[
        list[Path] | None,
        typer.Option(help="A run, a file of a history, or a history; repeatable.", rich_help_panel=_GATE),
    ] = None
    require: Annotated[
        list[str] | None,
        typer.Option("--require", "-r", help="Such as 'first_failure >= baseline'; repeatable.", rich_help_panel=_GATE),
    ] = None
    begin: Annotated[
        bool, typer.Option("--begin", help="A history without a run of this kind may begin.", rich_help_panel=_GATE)
    ] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """How runs are made here, where none lie there."""

    build: Annotated[
        str | None, typer.Option(help="Command that builds the server first; no shell.", rich_help_panel=_MADE)
    ] = None
    repeat: Annotated[int, typer.Option(min=1, help="How many runs to make.", rich_help_panel=_MADE)] = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class GitBisect:
    """How the answer is told to `git bisect run`."""

    git_bisect: Annotated[
        bool,
        typer.Option(
            "--git-bisect", help="Exit codes for `git bisect run`: 128 for our faults.", rich_help_panel=_BISECT
        ),
    ] = False
    start_failure: Annotated[
        Literal["skip", "bad"],
        typer.Option(help="What a commit is whose server does not come up.", rich_help_panel=_BISECT),
    ] = "skip"


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """Where the verdict goes."""

    out: Annotated[Path | None, typer.Option(help="Directory. Default: reports/gate/…", rich_help_panel=_OUTPUT)] = None
    github: Annotated[
        bool,
        typer.Option("--github", help="Annotations, and the page $GITHUB_STEP_SUMMARY.", rich_help_panel=_OUTPUT),
    ] = False
    json: Json = False
    quiet: Quiet = False


def gate_command(
    *,
    runs: Runs = None,
    required: Required,
    labelled: Labelled,
    limit: Limit = None,
    allow_reference: AllowReference = False,
    made: Made,
    server: Server = None,
    launched: Launched,
    load: Load,
    requests: Requests,
    timeout: Timeout = "900s",
    for_git: GitBisect,
    told: Told,
) -> None:
    """Hold runs against a baseline and against what CI requires, and say so where CI shows it.

    Exit code: 0 all met, 1 something is not met, 125 nobody can tell, 2 wrong call. With --git-bisect a wrong call
    and our own faults are 128, at which git stops; a commit that does not build, or whose server does not come
    up, is 125 (git skips it), or 1 with --start-failure bad.
    """
    from kvstress.harness.baseline import Labels
    from kvstress.harness.gate import GateOptions
    from kvstress.harness.gate_runs import Making, head_commit

    if for_git.git_bisect and not labelled.commit:
        labelled = replace(labelled, commit=head_commit(launched.cwd))
    folder = _folder(told.out, labelled.commit if for_git.git_bisect else None)
    asked = _asked(server, launched, load, requests, timeout, labelled)
    making = Making(options=asked, count=made.repeat, folder=folder, build=made.build) if asked else None
    options = GateOptions(
        baselines=tuple(required.baseline or ()),
        sentences=tuple(required.require or ()),
        labels=Labels(commit=labelled.commit, limit=limit, hardware=labelled.hardware),
        begin=required.begin,
        reference=allow_reference,
    )
    _check(options, making, runs or [], made.build)
    paths = runs or [] if making is None else _made(making, for_git.start_failure, quiet=told.quiet or told.json)
    raise typer.Exit(_carry_out(options, paths, folder, told))


def _asked(
    server: str | None, launched: Launched, load: Load, requests: Requests, timeout: str, labelled: Labelled
) -> "RunOptions | None":
    """The runs to make here; None when those that lie there are judged."""
    from kvstress.harness.options import RunOptions

    command = launched.filled_in()
    if not server and not command:
        return None
    return RunOptions(
        server=server,
        launch=command,
        launching=launched.launching(),
        timeout=duration(timeout),
        **load.asked(),
        **requests.asked(),
        **labelled.asked(),
    )


def _folder(out: Path | None, commit: str | None) -> Path:
    """Where the files go; each commit that git asks about keeps its own, which say why it was called good or bad."""
    if commit is not None:
        return (out or Path("reports") / "gate") / commit
    return out or Path("reports") / "gate" / f"{datetime.now(UTC):%Y%m%d-%H%M%S}"


def _check(options: "GateOptions", making: "Making | None", runs: list[Path], build: str | None) -> None:
    """Refuse before anything is built or started what would be refused after it."""
    from kvstress.core.errors import UsageError
    from kvstress.harness.gate import check
    from kvstress.harness.prepare import prepare

    if making is not None and runs:
        raise UsageError("both runs and a server given: either judge runs that lie there, or make some here")
    if making is not None and making.count > 1 and making.options.launch is None and not _embedded(making):
        raise UsageError("--repeat needs --launch: a second run on the same server would find the first one's cache")
    if making is None and build is not None:
        raise UsageError("--build comes before --launch, and no server is launched")
    if making is not None:
        prepare(making.options)
    check(options)


def _embedded(making: "Making") -> bool:
    return making.options.reference_args is not None


def _made(making: "Making", start_failure: str, *, quiet: bool) -> list[Path]:
    """The runs, made here. Exits when this commit cannot be judged."""
    import anyio
    from rich.console import Console

    from kvstress.harness.gate_runs import BuildFailed, NeverCameUp, make
    from kvstress.harness.run import View
    from kvstress.report.terminal import live

    console = Console(stderr=True, highlight=False)

    def watching(manifest: "Manifest") -> AbstractContextManager:  # type: ignore[type-arg]
        return live(console, manifest) if console.is_terminal and not quiet else nullcontext(lambda event: None)

    view: View = watching
    try:
        settings = {"use_uvloop": sys.platform != "win32"}
        return anyio.run(make, making, view, backend="asyncio", backend_options=settings)
    except BuildFailed as problem:
        typer.echo(f"kvstress: {problem}", err=True)
        raise typer.Exit(125) from problem
    except NeverCameUp as problem:
        typer.echo(f"kvstress: {problem}", err=True)
        raise typer.Exit(1 if start_failure == "bad" else 125) from problem


def _carry_out(options: "GateOptions", paths: list[Path], folder: Path, told: Told) -> int:
    from kvstress.harness.gate import gate, write

    summary = _summary_page() if told.github else None
    found = gate(options, paths)
    content = write(found, folder)
    if summary is not None:
        _tell_github(found, summary)
    if told.json:
        json_module.dump(content, sys.stdout, ensure_ascii=False, indent=2)
        print()
    else:
        _show(found, folder, quiet=told.quiet)
    return found.gated.outcome.exit_code


def _summary_page() -> Path:
    from kvstress.core.errors import UsageError

    page = os.environ.get("GITHUB_STEP_SUMMARY")
    if not page:
        raise UsageError("--github: $GITHUB_STEP_SUMMARY is not set; without it this is no GitHub job")
    return Path(page)


def _tell_github(found: "Verdicts", page: Path) -> None:
    """Append to the job's page and outputs, and print the commands on stderr, which the runner reads too."""
    from kvstress.harness.gate import job_outputs, job_summary
    from kvstress.report.gate import annotations

    with page.open("a", encoding="utf-8", errors="replace") as file:
        file.write(job_summary(found))
    if outputs := os.environ.get("GITHUB_OUTPUT"):
        with Path(outputs).open("a", encoding="utf-8") as file:
            file.writelines(f"{name}={value}\n" for name, value in job_outputs(found).items())
    for command in annotations(found.gated):
        typer.echo(command, err=True)


def _show(found: "Verdicts", folder: Path, *, quiet: bool) -> None:
    from rich.console import Console

    from kvstress.report.gate import told

    console = Console(highlight=False, soft_wrap=True)
    for words in told(found.gated, quiet=quiet):
        console.print(words, markup=False)
    console.print(str(folder / "summary.md"), markup=False)
