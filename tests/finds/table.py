"""The table of finds: what each case must come to, written down before it was run, and what it came to.

A detector that is tuned until its own runs look right proves nothing. So the right column of
`cases.csv` was committed first, and a run of all cases is a second table that must equal it, whatever the seed.
"""

import csv
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields
from pathlib import Path

HERE = Path(__file__).parent


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One run to make. `kind` is defect, twin or control; `found_by` names the oracles that must find it.

    No others may, but for those in `also`, which depend on what happened to be in flight (`NAME?` in the table).
    `server` is `reference` with the arguments of the embedded server, or `habit` with the name of a
    harmless habit; `workload` a file of `workloads/` here, or a shipped one, and settings of it.
    """

    case: str
    kind: str
    server: str
    workload: str
    verdict: str
    found_by: frozenset[str]
    also: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What a case came to. `fired` is how often the server's own log says that the defect showed.

    `step` is that of the first failure; `why` the judge's sentence; `run` the folder of its run.
    """

    case: str
    kind: str
    verdict: str
    found_by: str
    step: int | None
    fired: int
    right: bool
    seconds: float
    why: str
    run: str


def cases(path: Path = HERE / "cases.csv") -> tuple[Case, ...]:
    """The committed table."""
    with path.open(newline="", encoding="utf-8") as file:
        return tuple(map(_case, csv.DictReader(file)))


def _case(row: dict[str, str]) -> Case:
    named = row.pop("found_by").split()
    also = frozenset(name.rstrip("?") for name in named if name.endswith("?"))
    return Case(**row, found_by=frozenset(named) - {f"{name}?" for name in also}, also=also)


def is_right(case: Case, verdict: str, found_by: frozenset[str], fired: int) -> bool:
    """Found by those oracles that were named before and by no other, with a defect that did show."""
    return verdict == case.verdict and case.found_by <= found_by <= case.found_by | case.also and fired > 0


def write(path: Path, rows: Iterable[Row]) -> None:
    """The rows as CSV."""
    with path.open("w", newline="", encoding="utf-8") as file:
        table = csv.DictWriter(file, [field.name for field in fields(Row)], lineterminator="\n")
        table.writeheader()
        table.writerows(map(asdict, rows))


def line(case: Case, row: Row) -> str:
    """One line for a person: what was found where, and what was expected instead if it is not right."""
    found = row.found_by or "silence"
    at = "" if row.step is None else f" at prompt {row.step}"
    mark = "ok " if row.right else "RED"
    wrong = "" if row.right else f"; expected {case.verdict} {' '.join(sorted(case.found_by))}: {row.why[:200]}"
    return f"{mark} {case.kind:<7} {case.case:<27} {row.verdict:<12} {found}{at}, shown {row.fired}×{wrong}"
