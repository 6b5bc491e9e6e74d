"""A small history of accepted runs, one plain JSON file each, to hold the next run against.

A run directory of a long night is too large to keep for every commit, and most of it is never
read again. What a comparison needs of it is a few kilobytes, so that is kept, in files that lie
well in git or on a runner's disk and that `rm` and `cp` can manage as well as we can.

    DIR/WORKLOAD/LIMIT/HARDWARE/COMMIT/RUN.json
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from kvstress.core.errors import CannotJudgeError, UsageError
from kvstress.store import disk

SCHEMA_VERSION = 1
UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """What two runs must share to be compared night by night; each is a label as it was given."""

    workload: str
    limit: str
    hardware: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One accepted run: `accepted` is when, ISO 8601, UTC; `facts` are what a comparison reads, as JSON values."""

    schema_version: int = SCHEMA_VERSION
    kind: str = "kvstress-baseline"
    key: Key
    commit: str
    run: str
    accepted: str
    verdict: str
    embedded: bool
    facts: Mapping[str, Any]


def now() -> str:
    """The label of an entry that is accepted now; microseconds keep the order of entries made in a loop."""
    return datetime.now(UTC).isoformat(timespec="microseconds")


def place(folder: Path, entry: Entry) -> Path:
    """Where `entry` lies in the history `folder`."""
    key = entry.key
    parts = (key.workload, key.limit, key.hardware, entry.commit)
    return folder.joinpath(*map(slug, parts), f"{slug(entry.run)}.json")


def slug(label: str) -> str:
    """`label` as a file name: what is neither letter, digit nor `._-` becomes `-`, and it never begins with a dot."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", label)[:80].lstrip(".-") or UNKNOWN


def add(folder: Path, entry: Entry) -> Path:
    """Store `entry`, replacing one of the same run; the file's path."""
    path = place(folder, entry)
    with disk.writing(path.parent, "create"):
        path.parent.mkdir(parents=True, exist_ok=True)
    disk.replace(path, msgspec.json.encode(entry) + b"\n")
    return path


def read(path: Path) -> Entry:
    """The entry in the file `path`. UsageError when it is none of ours, CannotJudgeError when it is too new."""
    with disk.reading(path):
        content = path.read_bytes()
    try:
        entry = msgspec.json.decode(content, type=Entry)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as problem:
        raise UsageError(f"{path} is no baseline that `kvstress baseline add` wrote ({problem})") from problem
    if entry.schema_version > SCHEMA_VERSION:
        raise CannotJudgeError(f"{path} was written by a newer kvstress (version {entry.schema_version}): use that one")
    return entry


def entries(folder: Path) -> Iterator[tuple[Path, Entry]]:
    """Every entry below `folder` with its file, the oldest first. UsageError when `folder` is no directory."""
    if not folder.is_dir():
        raise UsageError(f"{folder}: no such directory; `kvstress baseline add {folder} RUN` makes one")
    found = [(path, read(path)) for path in sorted(folder.glob("*/*/*/*/*.json"))]
    return iter(sorted(found, key=lambda pair: pair[1].accepted))


def newest(folder: Path, key: Key, *, but: str | None = None) -> tuple[Entry, ...]:
    """All runs of the commit accepted last for `key`; of a commit other than `but` where there is one."""
    of_key = [entry for _, entry in entries(folder) if entry.key == key]
    others = [entry for entry in of_key if entry.commit != but] or of_key
    return tuple(entry for entry in others if entry.commit == others[-1].commit)


def prunable(folder: Path, keep: int) -> list[Path]:
    """The files of all but the `keep` commits accepted last, of each workload, limit and hardware."""
    commits: dict[Key, list[str]] = {}
    found = list(entries(folder))
    for _, entry in reversed(found):
        of_key = commits.setdefault(entry.key, [])
        if entry.commit not in of_key:
            of_key.append(entry.commit)
    return [path for path, entry in found if entry.commit not in commits[entry.key][:keep]]


def remove(folder: Path, path: Path) -> None:
    """Remove the entry `path` and the directories below `folder` that it leaves empty."""
    with disk.writing(path, "remove"):
        path.unlink(missing_ok=True)
    for parent in path.parents:
        if parent == folder or not parent.is_relative_to(folder) or any(parent.iterdir()):
            break
        parent.rmdir()
