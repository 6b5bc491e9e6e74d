"""`python -m tests.reference.shrinks`: planted defects of different kinds, each shrunk from the run that found it.

Writes reports/reference/shrinks.csv. A defect that shows at its ninth request needs nine requests, whatever is left
out: `server` tells such numbers, and a reproducer that is smaller than they allow would have found something else.
"""

import csv
import json
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from tests.finds.table import HERE, Case, cases

OUT = Path("reports/reference/shrinks.csv")
KVSTRESS = Path(sys.executable).with_name("kvstress")
CHOSEN = (
    "silent-truncation",
    "bang-flood",
    "overflow-500",
    "cross-talk",
    "warm-drift",
    "admit-hang",
    "ghost-decode",
    "stuck-waiting",
    "stream-error",
    "empty-success",
    "abort-neighbour",
    "lost-tail",
)
_BUDGET = "120"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """Prompts, requests and units of text before and after, launches used, how often the result failed.

    `done` is false when the search could not be made or met its bound; `script` is the exit code of repro.py on a
    fresh server with the defect, `healthy` that on its twin.
    """

    case: str
    server: str
    signature: str
    prompts_before: int
    requests_before: int
    prompts: int
    requests: int
    text: int
    launches: int
    failed: int
    probes: int
    done: bool
    script: int
    healthy: int
    seconds: float


def rows() -> Iterator[Row]:
    """One after the other: each search already fills both cores now and then."""
    known = {case.case: case for case in cases()}
    for name in CHOSEN:
        with tempfile.TemporaryDirectory() as folder:
            yield shrunk(known[name], Path(folder))


def shrunk(case: Case, folder: Path) -> Row:
    """Run the case, shrink the run, and run the script that came of it."""
    began = time.perf_counter()
    _, *flags = shlex.split(case.server)
    server = ("serve", "--port", "{port}", *flags)
    launch = ("--launch", shlex.join((str(KVSTRESS), *server)))
    workload, *settings = case.workload.split()
    own = HERE / "workloads" / f"{workload}.toml"
    words = ["--workload", str(own) if own.exists() else workload, *(f"--set={one}" for one in settings)]
    fixed = ("--timeout", "15s", "--time-scale", "0.05", "--quiet", "--overwrite")
    _kvstress("run", *launch, *words, *fixed, "--out", folder / "run")
    code = _kvstress("shrink", folder / "run", *launch, "--out", folder / "small", "--budget", _BUDGET, "--quiet")
    if not (folder / "small" / "repro.json").exists():
        raise SystemExit(f"{case.case} was not shrunk at all (exit code {code})")
    found = json.loads((folder / "small" / "repro.json").read_text())
    before, after = found["before"], found["after"]
    return Row(
        case=case.case,
        server=" ".join(flags),
        signature=found["failure"]["signature"],
        prompts_before=before["prompts"],
        requests_before=before["requests"],
        prompts=after["prompts"],
        requests=after["requests"],
        text=after["text"],
        launches=found["launches"],
        failed=found["failed"],
        probes=found["probes"],
        done=code == 0,
        script=_script(folder, flags),
        healthy=_script(folder, [_twin(flag) for flag in flags]),
        seconds=round(time.perf_counter() - began, 1),
    )


def _twin(flag: str) -> str:
    """The planted defect's healthy look-alike; any other flag as it is."""
    planted = {name for case in cases() if case.kind == "defect" for name in shlex.split(case.server)}
    if flag not in planted or flag.startswith("-") or flag[0].isdigit():
        return flag
    name, _, rest = flag.partition(":")
    numbers = [word for word in rest.split(",") if "=" in word]
    return ":".join((name, ",".join(("healthy", *numbers))))


def _script(folder: Path, flags: list[str]) -> int:
    """The exit code of repro.py against a fresh server with `flags`."""
    command = [str(KVSTRESS), "serve", "--port", "0", *flags]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert server.stdout is not None
        url = next(word for line in server.stdout for word in line.split() if word.startswith("http://"))
        told = [sys.executable, "-I", "-S", str(folder / "small" / "repro.py"), url]
        return subprocess.run(told, stdout=subprocess.DEVNULL, timeout=120, check=False).returncode
    finally:
        server.terminate()
        server.wait(20)


def _kvstress(*words: object) -> int:
    command = [str(KVSTRESS), *map(str, words)]
    return subprocess.run(command, stdout=subprocess.DEVNULL, timeout=900, check=False).returncode


def main() -> int:
    """Write the table as it grows; 0 when every search ended and every script told defect and twin apart."""
    shutil.rmtree(OUT, ignore_errors=True)
    found: list[Row] = []
    with OUT.open("w", newline="", encoding="utf-8") as file:
        table = csv.DictWriter(file, [field.name for field in fields(Row)], lineterminator="\n")
        table.writeheader()
        for row in rows():
            found.append(row)
            table.writerow(asdict(row))
            file.flush()
            print(
                f"{row.case:<22} {row.prompts_before} prompts, {row.requests_before} requests -> {row.prompts}, "
                f"{row.requests} in {row.launches} launches; script {row.script}, on the twin {row.healthy}"
                f"{'' if row.done else '; NOT FINISHED'} ({row.seconds:.0f} s)",
                flush=True,
            )
    return 0 if found and all(row.done for row in found) else 1


if __name__ == "__main__":
    sys.exit(main())
