"""What kvstress costs, and by how much its clock is off: `make bench`, or `python -m tests.bench --only events`.

Nothing here is asserted: figures of a machine that others use as well are read, not tested. Ratios are of
neighbours in one run.
"""

import argparse
import os
from pathlib import Path

from tests.bench import figures
from tests.bench.peers import PEERS, home, installed
from tests.bench.sections import SECTIONS, stored


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    names = [*(section.__name__ for section in SECTIONS), stored.__name__]
    parser.add_argument("--only", nargs="*", choices=names, default=names)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--requests", type=int, default=50_000, help="how many the stored run has")
    parser.add_argument("--out", type=Path, default=Path("reports/bench"))
    given = parser.parse_args()
    load = " ".join(f"{value:.2f}" for value in os.getloadavg())
    print(f"{len(os.sched_getaffinity(0))} cores, load {load} before anything was started")
    for name in PEERS:
        if name not in installed():
            print(f"{name}: skipped, there is no {home(name)}")
    kept: list[figures.Figure] = []
    for section in SECTIONS:
        if section.__name__ in given.only:
            for figure in section(given.rounds):
                figures.show(figure)
                kept.append(figure)
    if stored.__name__ in given.only:
        for figure in stored(given.rounds, given.requests):
            figures.show(figure)
            kept.append(figure)
    figures.write(kept, given.out)
    print(f"written to {given.out}")


if __name__ == "__main__":
    main()
