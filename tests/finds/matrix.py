"""Which coverage key of which shipped workload can be reached on which engine.

`python -m tests.finds.matrix` writes the table. What an engine offers was asked of it by `kvstress doctor` and is kept
in `features.json`; the rest follows by the rules that doctor and the judge use themselves.
"""

import csv
import io
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec

from kvstress.core.diagnosis import Can
from kvstress.core.features import Features
from kvstress.harness.doctor import coverage
from kvstress.harness.inputs import shipped_workloads, workload_text
from kvstress.workload.spec import parse

FOLDER = Path(__file__).parents[2] / "reports" / "engines"
MATRIX = FOLDER / "reachable.csv"
COLUMNS = ("engine", "workload", "key", "reachable", "why")


def engines() -> dict[str, tuple[str | None, Features]]:
    """Dialect and features of each engine that was asked."""
    kept = json.loads((FOLDER / "features.json").read_text(encoding="utf-8"))
    return {name: (each["dialect"], msgspec.convert(each["features"], Features)) for name, each in kept.items()}


def rows() -> Iterator[tuple[str, str, str, str, str]]:
    """The matrix; `reachable` is yes, if (`why` says on what it hangs), or no: then a run is INVALID and says `why`."""
    declared = {name: parse(*workload_text(name)).coverage.keys for name in sorted(shipped_workloads())}
    for engine, (dialect, features) in engines().items():
        cans = {can.name: can for can in coverage(features, dialect)}
        for workload, keys in declared.items():
            yield from ((engine, workload, key, _reachable(cans[key]), cans[key].why) for key in keys)


def _reachable(can: Can) -> str:
    return ("if" if can.why else "yes") if can.yes else "no"


def text() -> str:
    """The matrix as CSV."""
    out = io.StringIO()
    table = csv.writer(out, lineterminator="\n")
    table.writerow(COLUMNS)
    table.writerows(rows())
    return out.getvalue()


if __name__ == "__main__":
    MATRIX.write_text(text(), encoding="utf-8")
    sys.stdout.write(text())
