"""The committed campaign: the reference server beside the report that it is built from.

Every run is an ordinary `kvstress run` against the embedded server, two at a time; all seeds are
published, none is chosen. A run whose row is already in runs.csv is not made again, so a campaign
that was cut off goes on.
"""

import csv
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.reference.page import page
from tests.reference.throughput import measure

OUT = Path("reports/reference")
KVSTRESS = Path(sys.executable).with_name("kvstress")
SEEDS_50G, SEEDS_94G = range(12), range(6)
FIXES = ("zero-on-release", "clear-dead-tail", "inert-mask")
DEDICATED = ("0-47", "53-100")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One run: the reference server's arguments, the prompt seed and the cap on prompts."""

    group: str
    server: str
    seed: int
    steps: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What one run came to; an empty cell was not observed."""

    group: str
    server: str
    seed: int
    steps: int
    verdict: str
    fill: int | None
    first_failure: int | None
    phase: str | None
    passed: int | None
    least_free_snapshots: int | None
    words: str


def cells() -> Iterator[Cell]:
    """The whole campaign, in the order of its tables."""
    for seed in SEEDS_50G:
        yield Cell(group="50G", server="--memory-limit 50G", seed=seed, steps=143)
    for seed in SEEDS_94G:
        yield Cell(group="94G", server="--memory-limit 94G", seed=seed, steps=100)
    for limit, steps in (("50G", 143), ("94G", 100)):
        for fix in FIXES:
            yield Cell(group=f"{limit} fixed", server=f"--memory-limit {limit} --fix {fix}", seed=0, steps=steps)
        for slots in DEDICATED:
            server = f"--memory-limit {limit} --dedicated-snapshots {slots}"
            yield Cell(group=f"{limit} dedicated", server=server, seed=0, steps=steps)
    two = "--memory-limit 50G --tensor-parallel 2"
    for extra in ("", " --fix zero-on-release:rank0", " --fix zero-on-release:rank0 --audit", " --fix zero-on-release"):
        yield Cell(group="two ranks", server=two + extra, seed=0, steps=30)


def run(cell: Cell) -> Row:
    """Make one run in a directory that is thrown away."""
    with tempfile.TemporaryDirectory() as folder:
        words = ("--server", f"reference {cell.server}", "--seed", str(cell.seed), "--max-steps", str(cell.steps))
        out = Path(folder) / "run"
        command = [str(KVSTRESS), "run", *words, "--max-duration", "20m", "--quiet", "--out", str(out)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if not (out / "verdict.json").is_file():
            return _row(cell, {"verdict": "could not run", "why": " ".join(done.stderr.split())[-300:]}, None)
        return _row(cell, json.loads((out / "verdict.json").read_text()), _least_free(out / "prompts.csv"))


def _row(cell: Cell, verdict: dict[str, object], least: int | None) -> Row:
    first, fill = verdict.get("first_failure"), verdict.get("pool_fill")
    return Row(
        **asdict(cell),
        verdict=str(verdict["verdict"]),
        fill=fill["step"] if isinstance(fill, dict) else None,
        first_failure=first["step"] if isinstance(first, dict) else None,
        phase=first["phase"] if isinstance(first, dict) else None,
        passed=verdict.get("censored_at"),  # type: ignore[arg-type]
        least_free_snapshots=least,
        words=str(verdict.get("why", "")),
    )


def _least_free(table: Path) -> int | None:
    with table.open(newline="") as file:
        cells = [row.get("flare_free_snapshots") for row in csv.DictReader(file)]
    return min((int(float(cell)) for cell in cells if cell), default=None)


def _stored(path: Path) -> list[dict[str, str]]:
    if not path.is_file():
        return []
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def _missing(wanted: list[Cell], stored: list[dict[str, str]]) -> list[Cell]:
    done = {(row["server"], row["seed"], row["steps"]) for row in stored}
    return [cell for cell in wanted if (cell.server, str(cell.seed), str(cell.steps)) not in done]


def main() -> None:
    """Make what is missing, write each row as it comes, and then the page."""
    began = time.monotonic()
    OUT.mkdir(parents=True, exist_ok=True)
    table = OUT / "runs.csv"
    wanted = list(cells())
    with ThreadPoolExecutor(2) as pool:
        for row in pool.map(run, _missing(wanted, _stored(table))):
            _append(table, row)
            print(
                f"{row.server} seed {row.seed}: {row.verdict}, full at {row.fill}, failed at {row.first_failure}",
                flush=True,
            )
    if not (OUT / "throughput.csv").is_file():
        measure(OUT / "throughput.csv")
    print(f"{time.monotonic() - began:.0f} s")
    text = page(_stored(table), _stored(OUT / "throughput.csv"))
    (OUT / "README.md").write_text(text, encoding="utf-8")


def _append(table: Path, row: Row) -> None:
    fresh = not table.is_file()
    with table.open("a", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=list(asdict(row)))
        if fresh:
            writer.writeheader()
        writer.writerow(asdict(row))


if __name__ == "__main__":
    main()
