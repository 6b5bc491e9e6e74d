"""Reading a run back, whole or killed, without its server and without trusting the file.

A line that has no newline was being written when the run was killed, and is nothing. A line that
cannot be read in the middle is something else: the file was damaged, and a judgement that
skipped it would be about another run.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

import msgspec

from kvstress.core.errors import CannotJudgeError, UsageError
from kvstress.core.events import Event
from kvstress.core.manifest import SCHEMA_VERSION, Manifest
from kvstress.core.record import Record
from kvstress.store import codec, disk

MANIFEST, EVENTS = "manifest.json", "events.jsonl"

_Shape = TypeVar("_Shape")


class _Identity(msgspec.Struct):
    """What makes a manifest.json one of ours."""

    schema_version: int
    run: str
    plan_digest: str


class _Recorded(msgspec.Struct):
    record: Record = Record.TEXT


def manifest_json(manifest: Manifest, record: Record) -> bytes:
    """The content of manifest.json: the manifest and how much of the run is recorded."""
    values = codec.spelt(msgspec.to_builtins(manifest)) | {"record": record.value}
    return msgspec.json.format(msgspec.json.encode(values), indent=2) + b"\n"


def read_manifest(run: Path) -> Manifest:
    """The manifest of `run`.

    Raises UsageError when `run` is not a kvstress run, CannotJudgeError when its manifest is
    damaged or of a newer kvstress.
    """
    path = run / MANIFEST
    if not path.is_file():
        raise UsageError(f"{run} is not a kvstress run: it has no {MANIFEST}; name the directory given to --out")
    content = _content(path)
    version = _parsed(path, content, _Identity).schema_version
    if version > SCHEMA_VERSION:
        raise CannotJudgeError(
            f"{path} has schema version {version} and this kvstress reads up to {SCHEMA_VERSION}: use a newer one"
        )
    return _parsed(path, content, Manifest)


def read_record(run: Path) -> Record:
    """How much `run` records."""
    path = run / MANIFEST
    return _parsed(path, _content(path), _Recorded).record


def is_run(directory: Path) -> bool:
    """Whether `directory` holds a manifest of ours, of whatever version."""
    try:
        msgspec.json.decode((directory / MANIFEST).read_bytes(), type=_Identity)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return True


def read_events(run: Path, *only: type[Event]) -> Iterator[Event]:
    """The events of `run` in order, one at a time; a last line cut off by a kill is left out.

    With `only`, those of these types alone: what is of another, by the beginning of its line, is passed over unread.
    Raises CannotJudgeError, naming file and line, at a line that is no event.
    """
    path = run / EVENTS
    passed_over = codec.heads_but(only) if only else frozenset()
    with disk.reading(path), path.open("rb") as file:
        for count, line in enumerate(file, 1):
            if passed_over and codec.head(line) in passed_over:
                continue
            if line.endswith(b"\n"):
                yield _event(path, count, line)


def _event(path: Path, count: int, line: bytes) -> Event:
    try:
        return codec.decode(line)
    except ValueError as problem:
        raise CannotJudgeError(
            f"{path}, line {count} is not an event ({problem}): restore the file, or keep what is before with"
            f" head -n {count - 1}"
        ) from problem


def _content(path: Path) -> bytes:
    with disk.reading(path):
        return path.read_bytes()


def _parsed(path: Path, content: bytes, shape: type[_Shape]) -> _Shape:
    try:
        return msgspec.json.decode(content, type=shape)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as problem:
        raise CannotJudgeError(
            f"{path} is damaged ({problem}): restore it, or run again into another --out"
        ) from problem
