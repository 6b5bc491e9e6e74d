"""`python -m tests.live.campaign healthy|hybrid`: many short runs on engines with nothing planted, and what alarmed.

A judge that is to be believed must be silent on healthy engines. How silent it can be said to be depends on how often
it was asked: so requests and armed oracles are counted run by run, and the bound is printed beside the zero. Runs that
were judged before are not run again: delete `reports/live/campaign` to begin anew.
"""

import csv
import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from math import comb
from pathlib import Path

from tests.live.engines import ENGINES
from tests.live.environments import NotInstalledError, environment
from tests.live.serve import started, stopped
from tests.live.settings import CAMPAIGNS, Sends, Setting

OUT = Path("reports/live/campaign")
KVSTRESS = Path(sys.executable).with_name("kvstress")
_LIMIT = 900.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One workload in one setting, over its seeds. `oracle_runs` are oracles that could judge, summed over runs.

    `alarms` are runs with a failing finding; `broken` ones ended without a verdict.
    """

    engine: str
    version: str
    flags: str
    workload: str
    runs: int
    requests: int
    oracle_runs: int
    passed: int
    invalid: int
    inconclusive: int
    alarms: int
    broken: int
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """How a run reaches its server (`words` of `kvstress run`), and the oracles that can judge it."""

    words: tuple[str, ...]
    oracles: frozenset[str]


@contextmanager
def serving(setting: Setting, folder: Path, log: Path) -> Iterator[Server]:
    """One server for all runs of the setting; with a twin, a fresh pair for each run. Raises NotInstalledError."""
    if setting.twin:
        command = ENGINES[setting.engine].command(folder, setting.flags)
        yield Server(words=("--launch", command, "--twin-launch", command), oracles=_able("--launch", command))
        return
    process, url = started(setting.engine, setting.flags, log)
    try:
        yield Server(words=("--server", url), oracles=_able("--server", url))
    finally:
        stopped(process)


def _able(*words: str) -> frozenset[str]:
    """Oracles that have what they live on with this server, as `kvstress doctor` finds. Also warms the server up."""
    asked = subprocess.run(
        [str(KVSTRESS), "doctor", *words, "--json"], capture_output=True, text=True, check=False, timeout=_LIMIT
    )
    if asked.returncode:
        raise NotInstalledError(f"doctor: {(asked.stdout + asked.stderr)[-300:]}")
    return frozenset(can["name"] for can in json.loads(asked.stdout)["oracles"] if can["yes"])


def row(setting: Setting, sends: Sends, server: Server, out: Path) -> Row:
    """Send the workload once for each seed and add up what was judged."""
    began = time.perf_counter()
    runs = [out / f"{sends.title}-{seed}" for seed in setting.seeds]
    for seed, run in zip(setting.seeds, runs, strict=True):
        _judged(run, server, (*sends.words, *setting.words, "--seed", str(seed)))
    judged = [run for run in runs if (run / "verdict.json").exists()]
    verdicts = [str(json.loads((run / "verdict.json").read_text())["verdict"]) for run in judged]
    return Row(
        engine=setting.engine,
        version=ENGINES[setting.engine].recipe.version,
        flags=setting.flags,
        workload=sends.title,
        runs=len(runs),
        requests=sum((run / "events.jsonl").read_bytes().count(b'"type":"request-sent"') for run in judged),
        oracle_runs=sum(len(_armed(run, server.oracles)) for run in judged),
        passed=verdicts.count("PASS"),
        invalid=verdicts.count("INVALID"),
        inconclusive=verdicts.count("INCONCLUSIVE"),
        alarms=verdicts.count("FAIL"),
        broken=len(runs) - len(judged),
        seconds=round(time.perf_counter() - began, 1),
    )


def _judged(run: Path, server: Server, words: tuple[str, ...]) -> None:
    if (run / "verdict.json").exists():
        return
    command = [str(KVSTRESS), "run", *server.words, *words, "--out", str(run), "--overwrite", "--quiet"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        try:
            said = process.communicate(timeout=_LIMIT)[0]
        except subprocess.TimeoutExpired:
            process.terminate()
            said = process.communicate()[0]
        finally:
            process.terminate()  # nothing, unless this campaign is ended meanwhile
    if process.returncode not in (0, 125):
        print(f"exit {process.returncode}: {shlex.join(command)}\n{said[-1500:]}", flush=True)


def _armed(run: Path, able: frozenset[str]) -> set[str]:
    """Oracles of this run that had what they live on, less those that said they could not tell."""
    asked = set(json.loads((run / "manifest.json").read_text())["oracles"])
    findings = [json.loads(line) for line in (run / "findings.jsonl").read_text().splitlines()]
    return (asked & able) - {one["oracle"] for one in findings if one["verdict"] == "INCONCLUSIVE"}


def upper(alarms: int, of: int, level: float = 0.05) -> float:
    """The largest rate at which `alarms` or fewer of `of` still come with probability `level` (Clopper and Pearson)."""
    if alarms >= of:
        return 1.0
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        few = sum(comb(of, k) * middle**k * (1 - middle) ** (of - k) for k in range(alarms + 1))
        low, high = (middle, high) if few > level else (low, middle)
    return high


def rows(settings: tuple[Setting, ...], missing: list[str]) -> Iterator[Row]:
    """Rows as they come; what could not be installed or started goes to `missing`."""
    for setting in settings:
        out = OUT / setting.name
        out.mkdir(parents=True, exist_ok=True)
        try:
            with serving(setting, environment(ENGINES[setting.engine].recipe), out / "server.log") as server:
                for sends in setting.sends:
                    yield row(setting, sends, server, out)
        except NotInstalledError as problem:
            missing.append(f"{setting.name}: {problem}")


def closing(table: list[Row], missing: list[str]) -> str:
    """Totals, and the bounds that follow from them."""
    runs, armed = sum(one.runs - one.broken for one in table), sum(one.oracle_runs for one in table)
    alarms, requests = sum(one.alarms for one in table), sum(one.requests for one in table)
    if not runs:
        return f"nothing was run; {len(missing)} settings not started"
    return (
        f"{alarms} alarms in {runs} runs, {requests:,} requests, {armed:,} armed oracle-runs: at 95 % below "
        f"{100 * upper(alarms, runs):.2g} % of runs and {100 * upper(alarms, max(armed, 1)):.2g} % of oracle-runs; "
        f"{sum(one.broken for one in table)} without a verdict, {len(missing)} settings not started"
    )


def main(name: str, words: str) -> int:
    """Print the table as it grows, write it beside the runs, and return 0, 1 for any alarm, or 125."""
    settings = tuple(setting for setting in CAMPAIGNS[name] if words in setting.name)
    OUT.mkdir(parents=True, exist_ok=True)
    # The models are tiny: threads that wait for one another on busy cores are slower than one.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    missing: list[str] = []
    table: list[Row] = []
    with (OUT / f"{name}.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, [field.name for field in fields(Row)], lineterminator="\n")
        writer.writeheader()
        for one in rows(settings, missing):
            table.append(one)
            writer.writerow(asdict(one))
            file.flush()
            print("  ".join(str(value) for value in asdict(one).values()), flush=True)
    print("\n".join([*(f"NOT STARTED  {problem}" for problem in missing), closing(table, missing)]))
    wrong = any(one.alarms or one.broken for one in table)
    return 1 if wrong else 125 if missing or not table else 0


if __name__ == "__main__":
    # Ended from outside, the engines must go, too: `finally` runs for SystemExit, not for a signal.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    if len(sys.argv) < 2 or sys.argv[1] not in CAMPAIGNS:
        print(f"name a campaign: {', '.join(CAMPAIGNS)}")
        sys.exit(2)
    sys.exit(main(sys.argv[1], " ".join(sys.argv[2:])))
