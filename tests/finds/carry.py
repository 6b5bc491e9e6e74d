"""Carries out one case: an ordinary run against a server that the case starts, and then a look into the server's log.

kvstress never reads that log. It is read here, afterwards, because a find counts only when the
defect really showed, and a twin's silence only when the look-alike did.
"""

import time
from contextlib import nullcontext
from pathlib import Path

import anyio

from kvstress.core.errors import KvstressError
from kvstress.core.record import Record
from kvstress.core.verdict import Verdict
from kvstress.harness.inputs import parse_settings
from kvstress.harness.options import RunOptions
from kvstress.harness.run import Result, run
from tests.finds.habits import command
from tests.finds.table import HERE, Case, Row, is_right

# Long enough for a request on two busy cores, short enough to wait for a dead server's.
TIMEOUT, TIME_SCALE = 15.0, 0.05
_POOL = "38G"


def carry_out(case: Case, seed: int, folder: Path) -> Row:
    """Run `case` into a directory under `folder`."""
    path = folder / case.case.replace(" ", "-")
    path.mkdir(parents=True, exist_ok=True)
    log = path / "shown.jsonl"
    log.unlink(missing_ok=True)
    began = time.perf_counter()
    try:
        result = anyio.run(
            run, _options(case, seed, path / "run", log), lambda manifest: nullcontext(lambda event: None)
        )
    except KvstressError as problem:
        return _row(case, None, str(problem), log, began, path)
    return _row(case, result, result.judgement.why, log, began, path)


def _row(case: Case, result: Result | None, why: str, log: Path, began: float, path: Path) -> Row:
    failed = [f for f in result.judgement.findings if f.verdict is Verdict.FAIL] if result else []
    found_by = frozenset(finding.oracle for finding in failed)
    first = result.judgement.first_failure if result else None
    verdict = result.judgement.verdict.name if result else "NO RUN"
    fired = len(log.read_text(encoding="utf-8").splitlines()) if log.exists() else 0
    return Row(
        case=case.case,
        kind=case.kind,
        verdict=verdict,
        found_by=" ".join(sorted(found_by)),
        step=first.step if first else None,
        fired=fired,
        right=is_right(case, verdict, found_by, fired),
        seconds=round(time.perf_counter() - began, 1),
        why=why,
        run=str(path / "run"),
    )


def _options(case: Case, seed: int, path: Path, log: Path) -> RunOptions:
    server, launch = _server(case, log)
    workload, *settings = case.workload.split()
    own = HERE / "workloads" / f"{workload}.toml"
    return RunOptions(
        server=server,
        launch=launch,
        workload=str(own) if own.exists() else workload,
        settings=parse_settings(settings),
        seed=seed,
        out=path,
        overwrite=True,
        record=Record.TEXT,
        timeout=TIMEOUT,
        time_scale=TIME_SCALE,
        scrape_interval=0.5,
    )


def _server(case: Case, log: Path) -> tuple[str | None, str | None]:
    """The `--server` of a reference server, or the `--launch` of a server with a habit."""
    what, _, rest = case.server.partition(" ")
    if what == "habit":
        return None, command(rest, log)
    pool = "" if "--memory-limit" in rest else f"--memory-limit {_POOL} "
    return f"reference {pool}{rest} --debug-log {log}".replace("  ", " "), None
