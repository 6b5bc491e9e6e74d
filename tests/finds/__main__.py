"""All cases, two at a time: the table of what was found, by which oracle, and of what kept silent.

`python -m tests.finds [--seed N] [--out DIR] [--only TEXT]`. Exit code 1 when a row differs from what was written
down, or when an oracle turns out to be needed for none.
"""

import argparse
import sys
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path

from tests.finds.carry import carry_out
from tests.finds.table import Case, Row, cases, line, write
from tests.finds.worth import Worth, show, store, worths


def main() -> int:
    """Run, print, write `finds.csv`; 0 when each row is right."""
    given = _arguments()
    chosen = [case for case in cases() if given.only in case.case]
    began = time.perf_counter()
    rows = _run(chosen, given.seed, given.out, given.jobs)
    write(given.out / "finds.csv", rows)
    wrong = [row for row in rows if not row.right]
    idle = [] if given.only else _worth(given.out)
    if given.store:
        store(chosen, given.out)
    took = time.perf_counter() - began
    print(f"{len(rows) - len(wrong)} of {len(rows)} cases as written down, in {took:.0f} s; {given.out / 'finds.csv'}")
    return 1 if wrong or idle or not rows else 0


def _worth(out: Path) -> list[Worth]:
    """Print what each oracle is worth; those that no case needs."""
    found = worths(cases(), out)
    print("\n".join(map(show, found)))
    return [worth for worth in found if not worth.red]


def _arguments() -> argparse.Namespace:
    options = argparse.ArgumentParser(prog="python -m tests.finds", description=__doc__)
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--out", type=Path, default=Path("reports/runs/finds"))
    options.add_argument("--only", default="", help="cases whose name contains this")
    options.add_argument("--jobs", type=int, default=2)
    options.add_argument(
        "--store", action="store_true", help="keep the runs of the defects for tests/finds/test_worth.py"
    )
    return options.parse_args()


def _run(chosen: list[Case], seed: int, out: Path, jobs: int) -> list[Row]:
    """The rows in the order of the table. A process each, because a run waits for signals in its main thread."""
    out.mkdir(parents=True, exist_ok=True)
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        running = {pool.submit(carry_out, case, seed, out): case for case in chosen}
        done: dict[str, Row] = {}
        for future in as_completed(running):
            case, row = running[future], future.result()
            done[case.case] = row
            print(line(case, row), flush=True)
    return [done[case.case] for case in chosen]


if __name__ == "__main__":
    sys.exit(main())
