"""Accepting runs into a history, and finding in it what a new run is to be held against.

What is stored is what a gate asks a run about, judged once more on the way in: a run that was not
judged (INVALID, INCONCLUSIVE) says nothing and is never accepted, and one that failed only by name, because
a history that learns failures by itself stops seeing them.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from kvstress.core.errors import UsageError
from kvstress.core.manifest import Manifest
from kvstress.core.verdict import Judgement, Verdict
from kvstress.gate.evidence import Seen, Side
from kvstress.harness.seen import look
from kvstress.report.hostile import line
from kvstress.store import baseline
from kvstress.store.baseline import Entry, Key
from kvstress.store.reading import is_run

# The options with which engines are told how large their pool may be.
_LIMIT = re.compile(
    r"--(?:memory-limit|kv-cache-memory-bytes|gpu-memory-utilization|mem-fraction-static|ctx-size|cb-num-blocks)"
    r"[= ]([\w.%+-]+)"
)
DEFAULT_LIMIT = "default"
_Samples = tuple[tuple[int, float], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Labels:
    """Labels given on the command line; None leaves what the run itself says."""

    commit: str | None = None
    limit: str | None = None
    hardware: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepting:
    """What may be accepted: runs that failed (`failing`), runs of the embedded server (`reference`)."""

    labels: Labels
    failing: bool = False
    reference: bool = False


def key_of(manifest: Manifest, labels: Labels) -> Key:
    """What `manifest`'s run shares with the runs it may be compared with."""
    said = _LIMIT.search(manifest.target.launched or manifest.command)
    return Key(
        workload=manifest.workload,
        limit=labels.limit or (said[1] if said else DEFAULT_LIMIT),
        hardware=labels.hardware or manifest.hardware or baseline.UNKNOWN,
    )


def accept(folder: Path, runs: Sequence[Path], accepting: Accepting) -> list[Path]:
    """Add `runs` to the history in `folder`; the files made. UsageError for a run that may not be accepted."""
    # All are looked at before any is stored: half a night accepted is a baseline that nobody asked for.
    made = [_entry(path, accepting) for path in runs]
    return [baseline.add(folder, entry) for entry in made]


def _entry(path: Path, accepting: Accepting) -> Entry:
    manifest, judgement, seen = look(path)
    commit = accepting.labels.commit or manifest.commit
    _check(path, manifest, judgement, accepting)
    if not commit:
        raise UsageError(f"{path} does not say which commit it tested: name it with --commit")
    return Entry(
        key=key_of(manifest, accepting.labels),
        commit=commit,
        run=manifest.run,
        accepted=baseline.now(),
        verdict=judgement.verdict.name,
        embedded=manifest.target.embedded,
        facts=_packed(seen),
    )


def _check(path: Path, manifest: Manifest, judgement: Judgement, accepting: Accepting) -> None:
    if manifest.target.embedded and not accepting.reference:
        raise UsageError(f"{path} is a run of the embedded reference server: accept it with --allow-reference")
    if judgement.verdict in (Verdict.INVALID, Verdict.INCONCLUSIVE):
        raise UsageError(f"{path} is {judgement.verdict.name} and says nothing to compare with: {judgement.why}")
    if judgement.verdict is Verdict.FAIL and not accepting.failing:
        raise UsageError(f"{path} failed ({judgement.why}): accept it as known with --accept-failing")


def _packed(seen: Seen) -> dict[str, Any]:
    """`seen` as JSON values: a latency's word and phase become one key."""
    latencies = {
        f"{word} {phase}": [(step, round(value, 6)) for step, value in samples]
        for (word, phase), samples in seen.latencies.items()
    }
    rounded = tuple((step, tokens, round(seconds, 6)) for step, tokens, seconds in seen.paces)
    packed: dict[str, Any] = msgspec.to_builtins(replace(seen, latencies={}, paces=rounded))
    return {**packed, "signatures": sorted(seen.signatures), "latencies": latencies}


def unpacked(entry: Entry, path: Path | None = None) -> Seen:
    """The `Seen` that an entry was made of. UsageError when its facts are damaged."""
    facts = dict(entry.facts)
    latencies = facts.pop("latencies", {})
    try:
        seen = msgspec.convert({**facts, "latencies": {}}, Seen)
        by_phase = {_pair(key): msgspec.convert(samples, _Samples) for key, samples in latencies.items()}
    except (msgspec.ValidationError, TypeError, ValueError, AttributeError) as problem:
        raise UsageError(f"{path or entry.run}: the facts of this baseline are damaged ({problem})") from problem
    return replace(seen, latencies=by_phase)


def _pair(key: str) -> tuple[str, str]:
    word, _, phase = key.partition(" ")
    return word, phase


def listed(folder: Path) -> list[dict[str, Any]]:
    """What the history in `folder` holds, the oldest first, for people and as JSON values."""
    return [
        {
            "accepted": entry.accepted[:19],
            "workload": line(entry.key.workload),
            "limit": line(entry.key.limit),
            "hardware": line(entry.key.hardware),
            "commit": line(entry.commit),
            "run": line(entry.run),
            "verdict": line(entry.verdict),
            "first_failure": _first_of(entry),
        }
        for _, entry in baseline.entries(folder)
    ]


def prune(folder: Path, keep: int, *, dry_run: bool) -> list[Path]:
    """Remove all but the `keep` newest commits of each kind; the files that went (or, with `dry_run`, would)."""
    going = baseline.prunable(folder, keep)
    for path in () if dry_run else going:
        baseline.remove(folder, path)
    return going


def _first_of(entry: Entry) -> str:
    first = unpacked(entry).first
    if first is None:
        return "no step"
    return f"prompt {first.step}" if first.failed else f"none in {first.step}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Base:
    """The runs to be held against, in words which they are, and their commit where all share one that is known."""

    side: Side
    said: str
    embedded: bool
    commit: str | None = None


NO_BASE = Base(side=(), said="none", embedded=False)


def find(given: Sequence[Path], key: Key, commit: str | None) -> Base:
    """The baseline that `given` names: run directories, files of a history, or a history whose newest commit is taken.

    Of a history, `commit` (the head's own) is left out where there is another. `NO_BASE` when it has nothing of `key`.
    """
    bases = [_one(path, key, commit) for path in given]
    known = [base for base in bases if base.side]
    commits = {base.commit for base in known}
    return Base(
        side=tuple(seen for base in known for seen in base.side),
        said="; ".join(dict.fromkeys(base.said for base in known)) or NO_BASE.said,
        embedded=any(base.embedded for base in known),
        commit=commits.pop() if len(commits) == 1 else None,
    )


def _one(path: Path, key: Key, commit: str | None) -> Base:
    if path.is_file():
        return _of_entries((baseline.read(path),))
    if is_run(path):
        manifest, judgement, seen = look(path)
        if seen.first is None:
            # All that the head shows would be new beside it.
            raise UsageError(f"{path} says nothing to compare with: {judgement.why}")
        return Base(side=(seen,), said=f"run {manifest.run}", embedded=manifest.target.embedded, commit=manifest.commit)
    return _of_entries(baseline.newest(path, key, but=commit))


def _of_entries(entries: Sequence[Entry]) -> Base:
    if not entries:
        return NO_BASE
    runs = "1 run" if len(entries) == 1 else f"{len(entries)} runs"
    return Base(
        side=tuple(map(unpacked, entries)),
        said=f"commit {entries[-1].commit} ({runs}, accepted {entries[-1].accepted[:10]})",
        embedded=any(entry.embedded for entry in entries),
        commit=entries[-1].commit,
    )
