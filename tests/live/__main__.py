"""`python -m tests.live [ENGINE …] [WORDS OF A CASE]`: every case on every engine that can be installed, in one table.

An engine that cannot be installed is counted and makes the job exit 125: a table that is silent about what it did not
run would be green for nothing. Exit 1 when a case came out otherwise than written.
"""

import csv
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from tests.live.cases import CASES, Case, verdict_of
from tests.live.engines import ENGINES
from tests.live.environments import NotInstalledError, environment
from tests.live.processes import kill_below, wait_for

OUT = Path("reports/live")
KVSTRESS = Path(sys.executable).with_name("kvstress")
_LIMIT = 1_200.0
BOUNDARIES = "tests/harness/test_bisect_engines.py"
_NAMES = {"transformers": "transformers", "llama.cpp": "llama", "vllm": "vllm"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One case and what came of it; `complaint` is "" when it came out as written."""

    engine: str
    version: str
    case: str
    verdict: str
    expected: str
    coverage: str
    fill: str
    first_failure: str
    seconds: float
    complaint: str


def run(case: Case, folder: Path) -> Row:
    """Launch the engine for this case alone, run the case, and look at what came of it."""
    engine = ENGINES[case.engine]
    out = OUT / re.sub(r"[^a-z0-9]+", "-", f"{case.engine} {case.title}".lower())
    shutil.rmtree(out, ignore_errors=True)
    fired = out.with_suffix(".fired")
    fired.unlink(missing_ok=True)
    env = tuple(word for value in (*engine.env, *_planting(case, fired)) for word in ("--env", value))
    command = engine.command(folder, case.flags)
    launch = ("--launch", command, *(("--twin-launch", command) if case.twin else ()))
    began = time.perf_counter()
    words = _watched([str(KVSTRESS), "run", *launch, *env, *case.words, "--out", str(out), "--quiet"], case, out)
    seconds = time.perf_counter() - began
    if not (out / "verdict.json").exists():
        return _unjudged(case, words, seconds)
    verdict = verdict_of(out)
    return _row(case, verdict, seconds, _complaint(case, out, verdict, fired))


def _planting(case: Case, fired: Path) -> tuple[str, ...]:
    """What decides about the plug-in: not loaded at all, loaded and disarmed, or armed."""
    if case.engine != "vllm":
        return ()
    if case.planted is None:
        return ("VLLM_PLUGINS=",)
    return (f"KVSTRESS_PLANTED={case.planted}", f"KVSTRESS_PLANTED_LOG={fired.absolute()}")


def _watched(command: list[str], case: Case, out: Path) -> str:
    """Run kvstress to its end, killing what the case wants killed; what it printed."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        if case.kills and wait_for(out / "events.jsonl", b'"type":"step-ended"', _LIMIT):
            kill_below(process.pid, case.kills)
        try:
            return process.communicate(timeout=_LIMIT)[0]
        except subprocess.TimeoutExpired:
            process.terminate()
            return process.communicate()[0] + f"\nended after {_LIMIT:g} s"


def _complaint(case: Case, out: Path, verdict: dict[str, Any], fired: Path) -> str:
    if verdict["verdict"] != case.verdict:
        return f"{case.verdict} was expected: {verdict['why'][:200]}"
    if case.planted not in (None, "none") and not fired.exists():
        return "the planted defect never fired, so finding it proves nothing"
    if case.planted == "none" and fired.exists():
        return "the twin's defect fired"
    return case.look(out)


def _unjudged(case: Case, words: str, seconds: float) -> Row:
    empty: dict[str, Any] = {"verdict": "none", "coverage": {}, "pool_fill": None, "first_failure": None}
    return _row(case, empty, seconds, f"no verdict: {words[-300:]}")


def _row(case: Case, verdict: dict[str, Any], seconds: float, complaint: str) -> Row:
    coverage, fill, first = verdict["coverage"], verdict["pool_fill"], verdict["first_failure"]
    reached = {True: "yes", False: "no", None: "not observable"}
    return Row(
        engine=case.engine,
        version=ENGINES[case.engine].recipe.version,
        case=case.title,
        verdict=str(verdict["verdict"]),
        expected=case.verdict,
        coverage=", ".join(f"{key}: {reached[value]}" for key, value in coverage.items()),
        fill=f"{fill['step']} ({fill['how']})" if fill else "",
        first_failure=f"{first['step']} {first['phase']}" if first else "",
        seconds=round(seconds, 1),
        complaint=complaint,
    )


def rows(names: tuple[str, ...], words: str, missing: list[str]) -> Iterator[Row]:
    """Rows as they come, of cases whose title holds `words`; engines that cannot be installed go to `missing`."""
    folders: dict[str, Path] = {}
    for name in names:
        try:
            folder = environment(ENGINES[name].recipe)
        except NotInstalledError as problem:
            missing.append(str(problem))
            continue
        folders[name] = folder
        for case in CASES:
            if case.engine == name and words in case.title:
                yield run(case, folder)
    if words in "memory limit, by hand":
        yield from boundaries(folders)


def boundaries(folders: dict[str, Path]) -> Iterator[Row]:
    """The memory-limit search on each engine, against boundaries worked out by hand (`tests/harness`)."""
    for name, folder in folders.items():
        began = time.perf_counter()
        words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", BOUNDARIES, "-k", _NAMES[name]]
        done = subprocess.run(
            words, capture_output=True, text=True, check=False, env=os.environ | _places(name, folder)
        )
        lines = done.stdout.strip().splitlines() or [""]
        passed = done.returncode == 0 and " skipped" not in lines[-1]
        empty: dict[str, Any] = {"coverage": {}, "pool_fill": None, "first_failure": None}
        case = Case(engine=name, title="memory limit, by hand", flags="", words=(), verdict="found")
        verdict = {**empty, "verdict": "found" if passed else "not"}
        yield _row(case, verdict, time.perf_counter() - began, "" if passed else lines[-1])


def _places(name: str, folder: Path) -> dict[str, str]:
    """Where the search's tests find the engine."""
    llama = f"{folder / 'bin' / 'python'} {Path(__file__).parent / 'llama_server.py'} -m {folder / 'gemma.gguf'}"
    return {
        "transformers": {
            "KVSTRESS_TRANSFORMERS": str(folder / "bin" / "transformers"),
            "KVSTRESS_TINY_MODEL": str(folder / "dense"),
        },
        "llama.cpp": {"KVSTRESS_LLAMA_SERVER": f"{llama} --port {{port}}"},
        "vllm": {"KVSTRESS_VLLM": str(folder / "bin" / "python"), "KVSTRESS_TINY_MODEL": str(folder / "dense")},
    }[name]


def main(names: tuple[str, ...], words: str) -> int:
    """Print the table as it grows, write it to reports/live/table.csv, and return the exit code."""
    OUT.mkdir(parents=True, exist_ok=True)
    missing: list[str] = []
    complaints = count = 0
    with (OUT / "table.csv").open("w", newline="") as file:
        table = csv.DictWriter(file, [field.name for field in fields(Row)])
        table.writeheader()
        for row in rows(names or tuple(ENGINES), words, missing):
            count += 1
            complaints += bool(row.complaint)
            table.writerow(asdict(row))
            file.flush()
            _show(row)
    for words in missing:
        print(f"NOT INSTALLED  {words}")
    print(f"{count - complaints} cases as written, {complaints} otherwise, {len(missing)} engines not installed")
    return 1 if complaints else 125 if missing or not count else 0


def _show(row: Row) -> None:
    mark = "ok   " if not row.complaint else "WRONG"
    facts = (
        row.coverage,
        f"full {row.fill}" if row.fill else "",
        f"first failure {row.first_failure}" if row.first_failure else "",
    )
    said = "  ".join(fact for fact in facts if fact)
    print(
        f"{mark} {row.engine:<12} {row.version:<8} {row.case:<44} {row.verdict:<8} {said}  {row.seconds} s", flush=True
    )
    if row.complaint:
        print(f"      {row.complaint}", flush=True)


if __name__ == "__main__":
    engines = tuple(word for word in sys.argv[1:] if word in ENGINES)
    sys.exit(main(engines, " ".join(word for word in sys.argv[1:] if word not in ENGINES)))
