"""`kvstress gate`."""

import json as json_module
import os
import sys
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from kvstress.cli.launching import Cwd, Env, Preset, Stop, Value, filled_in, launching
from kvstress.cli.run import Data, Header, Launch, Server, Set, Workload, key_header
from kvstress.core.units import duration

if TYPE_CHECKING:
    from kvstress.core.manifest import Manifest
    from kvstress.harness.gate import GateOptions, Verdicts
    from kvstress.harness.gate_runs import Making

_GATE, _MADE, _BISECT, _OUTPUT = "What is required", "Runs made here", "git bisect", "Output"
Commit = Annotated[str | None, typer.Option(help="The server's commit, as a label.", rich_help_panel=_GATE)]
Limit = Annotated[
    str | None, typer.Option(help="Memory limit, as a label. Default: read off the command.", rich_help_panel=_GATE)
]
Hardware = Annotated[str | None, typer.Option(help="The machine under test, as a label.", rich_help_panel=_GATE)]
AllowReference = Annotated[
    bool, typer.Option("--allow-reference", help="Take runs of the embedded reference server.", rich_help_panel=_GATE)
]


def gate_command(
    *,
    runs: Annotated[list[Path] | None, typer.Argument(help="Run directories; none with --launch or --server.")] = None,
    baseline: Annotated[
        list[Path] | None,
        typer.Option(help="A run, a file of a history, or a history; repeatable.", rich_help_panel=_GATE),
    ] = None,
    require: Annotated[
        list[str] | None,
        typer.Option("--require", "-r", help="Such as 'first_failure >= baseline'; repeatable.", rich_help_panel=_GATE),
    ] = None,
    begin: Annotated[
        bool, typer.Option("--begin", help="A history without a run of this kind may begin.", rich_help_panel=_GATE)
    ] = False,
    commit: Commit = None,
    limit: Limit = None,
    hardware: Hardware = None,
    allow_reference: AllowReference = False,
    build: Annotated[
        str | None, typer.Option(help="Command that builds the server first; no shell.", rich_help_panel=_MADE)
    ] = None,
    server: Server = None,
    launch: Launch = None,
    preset: Preset = None,
    value: Value = None,
    env: Env = None,
    cwd: Cwd = None,
    stop: Stop = None,
    repeat: Annotated[int, typer.Option(min=1, help="How many runs to make.", rich_help_panel=_MADE)] = 1,
    workload: Workload = "speedbench",
    set_: Set = None,
    data: Data = None,
    seed: Annotated[int, typer.Option(help="Same seed, same prompts.", rich_help_panel=_MADE)] = 0,
    max_steps: Annotated[int | None, typer.Option(min=1, help="Steps at most.", rich_help_panel=_MADE)] = None,
    max_duration: Annotated[str | None, typer.Option(help="Such as 25m.", rich_help_panel=_MADE)] = None,
    model: Annotated[str | None, typer.Option(help="Default: the first of /v1/models.", rich_help_panel=_MADE)] = None,
    header: Header = None,
    api_key_env: Annotated[
        str | None, typer.Option(help="Environment variable that holds the API key.", rich_help_panel=_MADE)
    ] = None,
    timeout: Annotated[str, typer.Option(help="Deadline of one request.", rich_help_panel=_MADE)] = "900s",
    ready_timeout: Annotated[
        str, typer.Option(help="How long a launched server may take to answer.", rich_help_panel=_MADE)
    ] = "600s",
    git_bisect: Annotated[
        bool,
        typer.Option(
            "--git-bisect", help="Exit codes for `git bisect run`: 128 for our faults.", rich_help_panel=_BISECT
        ),
    ] = False,
    start_failure: Annotated[
        Literal["skip", "bad"],
        typer.Option(help="What a commit is whose server does not come up.", rich_help_panel=_BISECT),
    ] = "skip",
    out: Annotated[
        Path | None, typer.Option(help="Directory. Default: reports/gate/…", rich_help_panel=_OUTPUT)
    ] = None,
    github: Annotated[
        bool,
        typer.Option("--github", help="Annotations, and the page $GITHUB_STEP_SUMMARY.", rich_help_panel=_OUTPUT),
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print gate.json.", rich_help_panel=_OUTPUT)] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Only the verdict.", rich_help_panel=_OUTPUT)] = False,
) -> None:
    """Hold runs against a baseline and against what CI requires, and say so where CI shows it.

    Exit code: 0 all met, 1 something is not met, 125 nobody can tell, 2 wrong call. With --git-bisect a wrong call
    and our own faults are 128, at which git stops; a commit that does not build, or whose server does not come
    up, is 125 (git skips it), or 1 with --start-failure bad.
    """
    from kvstress.harness import inputs
    from kvstress.harness.baseline import Labels
    from kvstress.harness.gate import GateOptions
    from kvstress.harness.gate_runs import Making, head_commit
    from kvstress.harness.options import RunOptions

    commit = commit or (head_commit(cwd) if git_bisect else None)
    folder = _folder(out, commit if git_bisect else None)
    command = filled_in(launch, preset, value)
    making = None
    if server or command:
        asked = RunOptions(
            server=server,
            launch=command,
            launching=launching(env, cwd, stop, None, None),
            workload=workload,
            model=model,
            max_steps=max_steps,
            max_duration=None if max_duration is None else duration(max_duration),
            seed=seed,
            settings=inputs.parse_settings(set_ or []),
            data=data,
            headers={**inputs.parse_headers(header or []), **key_header(api_key_env)},
            api_key_env=api_key_env,
            timeout=duration(timeout),
            ready_timeout=duration(ready_timeout),
            commit=commit,
            hardware=hardware,
        )
        making = Making(options=asked, count=repeat, folder=folder, build=build)
    options = GateOptions(
        baselines=tuple(baseline or ()),
        sentences=tuple(require or ()),
        labels=Labels(commit=commit, limit=limit, hardware=hardware),
        begin=begin,
        reference=allow_reference,
    )
    _check(options, making, runs or [], build)
    paths = list(runs or []) if making is None else _made(making, start_failure=start_failure, quiet=quiet or json)
    raise typer.Exit(_carry_out(options, paths, folder, github=github, json=json, quiet=quiet))


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


def _made(making: "Making", *, start_failure: str, quiet: bool) -> list[Path]:
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


def _carry_out(
    options: "GateOptions", paths: list[Path], folder: Path, *, github: bool, json: bool, quiet: bool
) -> int:
    from kvstress.harness.gate import gate, write

    summary = _summary_page() if github else None
    found = gate(options, paths)
    content = write(found, folder)
    if summary is not None:
        _tell_github(found, summary)
    if json:
        json_module.dump(content, sys.stdout, ensure_ascii=False, indent=2)
        print()
    else:
        _show(found, folder, quiet=quiet)
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
