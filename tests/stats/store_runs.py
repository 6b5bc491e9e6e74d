"""`python -m tests.stats.store_runs`: the forty runs that the study draws from, one by one (about five minutes).

Nothing differs between them but the seed of their prompts.
"""

import csv
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.stats.study import STORED

KVSTRESS = Path(sys.executable).with_name("kvstress")
SEEDS = range(40)
_COLUMNS = ("seed", "fill", "capacity", "steps", "signature")


def row(run: Path, seed: int) -> dict[str, object]:
    """What the study needs of a run; `signature` is empty when it did not fail within `steps`."""
    verdict = json.loads((run / "verdict.json").read_text())
    first = verdict["first_failure"]
    with (run / "metrics.csv").open(newline="") as file:
        capacity = max(float(sample["kv_capacity"]) for sample in csv.DictReader(file) if sample["kv_capacity"])
    return {
        "seed": seed,
        "fill": verdict["pool_fill"]["step"],
        "capacity": f"{capacity:.0f}",
        "steps": verdict["censored_at"] if first is None else first["step"],
        "signature": "" if first is None else first["signature"],
    }


def main() -> None:
    """Run and write the table."""
    words = ("--server", "reference --memory-limit 50G", "--workload", "speedbench", "--quiet")
    with tempfile.TemporaryDirectory() as folder, STORED.open("w", newline="") as file:
        table = csv.DictWriter(file, _COLUMNS, lineterminator="\n")
        table.writeheader()
        for seed in SEEDS:
            run = Path(folder) / str(seed)
            subprocess.run([str(KVSTRESS), "run", *words, "--seed", str(seed), "--out", str(run)], check=False)
            table.writerow(row(run, seed))
            file.flush()


if __name__ == "__main__":
    main()
