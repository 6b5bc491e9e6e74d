"""What each oracle is worth: the cases that nobody finds any more, or that are no longer fully found, without it.

An oracle that no case needs is dead weight or untested, and nobody can tell which. The stored runs
are judged again with one oracle left out; no server is needed, because events are the judge's whole input.
"""

import zipfile
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from kvstress.core.verdict import Verdict
from kvstress.oracles.judge import ORACLES, judge
from kvstress.store.rundir import read_events, read_manifest
from tests.finds.table import HERE, Case

STORED = HERE / "stored.zip"

_KEPT = ("manifest.json", "events.jsonl")


@dataclass(frozen=True, slots=True, kw_only=True)
class Worth:
    """Of one oracle: the cases that turn red without it; `alone`, those of them that then nobody finds at all."""

    oracle: str
    red: tuple[str, ...]
    alone: tuple[str, ...]


def found_by(run: Path, without: str | None = None) -> frozenset[str]:
    """The oracles that find a failure in a stored run, with one of them left out."""
    manifest = read_manifest(run)
    armed = tuple(name for name in manifest.oracles if name != without)
    judgement = judge(replace(manifest, oracles=armed), read_events(run))
    return frozenset(finding.oracle for finding in judgement.findings if finding.verdict is Verdict.FAIL)


def worths(cases: Iterable[Case], folder: Path) -> tuple[Worth, ...]:
    """The worth of every oracle there is, by the runs under `folder`."""
    defects = [case for case in cases if case.kind == "defect" and run_of(folder, case).exists()]
    return tuple(_worth(name, defects, folder) for name, _ in ORACLES)


def _worth(oracle: str, defects: list[Case], folder: Path) -> Worth:
    left = {case.case: found_by(run_of(folder, case), oracle) for case in defects if oracle in case.found_by}
    red = tuple(case.case for case in defects if case.case in left and not case.found_by <= left[case.case])
    return Worth(oracle=oracle, red=red, alone=tuple(name for name in red if not left[name]))


def run_of(folder: Path, case: Case) -> Path:
    """The run directory of `case`."""
    return folder / case.case.replace(" ", "-") / "run"


def show(worth: Worth) -> str:
    """One line for a person."""
    if not worth.red:
        return f"RED {worth.oracle:<10} no case needs it"
    alone = f"; nobody else finds {', '.join(worth.alone[:3])}" if worth.alone else f"; needed in {worth.red[0]}"
    return f"ok  {worth.oracle:<10} {len(worth.red)} cases turn red without it{alone}"


def store(cases: Iterable[Case], folder: Path, path: Path = STORED) -> None:
    """Keep what judging needs of the defects' runs, for the test that has no servers."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as kept:
        for run in (run_of(folder, case) for case in cases if case.kind == "defect"):
            for name in _KEPT:
                kept.write(run / name, run.relative_to(folder) / name)


def unpack(folder: Path, path: Path = STORED) -> None:
    """The kept runs, under `folder` as a run of all cases leaves them."""
    with zipfile.ZipFile(path) as kept:
        kept.extractall(folder)
