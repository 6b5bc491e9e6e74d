"""`kvstress baseline page`: the accepted commits of a history on one page, each series with the change it has."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from statistics import median

from kvstress.core.errors import UsageError
from kvstress.gate.evidence import Seen
from kvstress.harness.baseline import unpacked
from kvstress.report.history import Line, Series, page
from kvstress.stats.change_point import change_point
from kvstress.store import baseline, disk
from kvstress.store.baseline import Entry, Key

WARM = "warm"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Commit:
    """All runs of a commit of one key, in the order of their acceptance."""

    name: str
    accepted: str
    runs: tuple[Seen, ...]


def write(folder: Path, out: Path) -> int:
    """Write the page of the history in `folder` to `out`; how many commits are on it. UsageError for an empty one."""
    found = [entry for _, entry in baseline.entries(folder)]
    if not found:
        raise UsageError(f"{folder} holds no accepted run: `kvstress baseline add {folder} RUN` adds one")
    lines = [_line(key, _commits(found, key)) for key in dict.fromkeys(entry.key for entry in found)]
    disk.replace(out, page(lines, any(entry.embedded for entry in found)).encode("utf-8", "replace"))
    return sum(len(line.commits) for line in lines)


def _commits(entries: Sequence[Entry], key: Key) -> list[_Commit]:
    """A commit that was accepted again later stands where it was first."""
    of_key = [entry for entry in entries if entry.key == key]
    order = {commit: place for place, commit in enumerate(dict.fromkeys(entry.commit for entry in of_key))}
    by_commit = groupby(sorted(of_key, key=lambda entry: order[entry.commit]), key=lambda entry: entry.commit)
    made = [(commit, list(runs)) for commit, runs in by_commit]
    return [
        _Commit(name=commit, accepted=runs[0].accepted[:10], runs=tuple(map(unpacked, runs))) for commit, runs in made
    ]


def _line(key: Key, commits: Sequence[_Commit]) -> Line:
    return Line(
        title=f"{key.workload}, limit {key.limit}, {key.hardware}",
        commits=tuple((commit.name, commit.accepted, len(commit.runs)) for commit in commits),
        series=tuple(_all_series(commits)),
    )


def _all_series(commits: Sequence[_Commit]) -> Iterator[Series]:
    yield _series("first failure", "prompt", commits, _first)
    yield _series("pool fill", "prompt", commits, lambda seen: seen.levels.get("pool_fill"))
    yield _series("warm latency, median", "s", commits, _warm)
    yield _series("throughput", "tok/s", commits, lambda seen: seen.levels.get("throughput"))


def _series(name: str, unit: str, commits: Sequence[_Commit], of: Callable[[Seen], float | None]) -> Series:
    """The commit's median run; a commit without a value is left out of the series and of the search for a change."""
    told = [[value for seen in commit.runs if (value := of(seen)) is not None] for commit in commits]
    values = [median(runs) if runs else None for runs in told]
    known = [(place, value) for place, value in enumerate(values) if value is not None]
    found = change_point([value for _, value in known])
    return Series(
        name=name,
        unit=unit,
        values=tuple(values),
        reached=tuple(max((_steps(seen) for seen in commit.runs), default=0.0) for commit in commits),
        change=None if found is None else known[found.at][0],
        p=None if found is None else found.p,
    )


def _first(seen: Seen) -> float | None:
    """The step of the first failure; later than any number when there was none."""
    if seen.first is None:
        return None
    return float(seen.first.step) if seen.first.failed else math.inf


def _steps(seen: Seen) -> float:
    return float(seen.first.step) if seen.first is not None else 0.0


def _warm(seen: Seen) -> float | None:
    """The median of the warm sends' latency; of all sends in a workload that has none."""
    of_phase = [s for (word, phase), s in seen.latencies.items() if word == "e2e" and phase.startswith(WARM)]
    every = of_phase or [s for (word, _), s in seen.latencies.items() if word == "e2e"]
    flat = [value for samples in every for _, value in samples]
    return median(flat) if flat else None
