"""A run on disk, written in phases: who and what first, then every event as it happens, the verdict last.

Whatever moment it is killed at, what was measured until then is there and can be judged. Only
`manifest.json` and `events.jsonl` count; the rest is made from them.
"""

import contextlib
import os
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from kvstress.core.errors import UsageError
from kvstress.core.events import Event
from kvstress.core.manifest import Manifest
from kvstress.core.record import Record
from kvstress.core.verdict import Judgement
from kvstress.store import bodies, codec, conclusion, disk
from kvstress.store.reading import EVENTS, MANIFEST, is_run, manifest_json, read_events, read_manifest, read_record
from kvstress.store.recording import kept
from kvstress.store.tables import Tables, rebuilt
from kvstress.store.views import TABLES

__all__ = [
    "FILES",
    "Record",
    "RunWriter",
    "create",
    "discard_if_empty",
    "read_events",
    "read_manifest",
    "rebuild",
    "reopen",
]

VERDICT, FINDINGS = "verdict.json", "findings.jsonl"
# Made from a judgement, and stale as soon as the run goes on.
CONCLUSIONS = (VERDICT, FINDINGS, "report.html", "junit.xml", "summary.md")
# What kvstress writes into a run directory. Overwriting removes these and never anything else; the
# manifest goes last, by being replaced, so that a kill in between leaves a recognisable run.
FILES = (EVENTS, bodies.FILE, *TABLES, *CONCLUSIONS, MANIFEST)
# Left behind only by a kill while a file was being replaced.
LEFTOVERS = (*(f"{name}.new" for name in TABLES), *(f".{name}.new" for name in (VERDICT, FINDINGS, MANIFEST)))


class RunWriter:
    """The one writer of a run directory, from `create` or `reopen`; a context manager that closes itself."""

    def __init__(self, path: Path, record: Record, tables: Tables, held: int, *, stale: tuple[str, ...] = ()) -> None:
        """`held` is the lock's descriptor, which `close` gives up; files named `stale` go at the first event."""
        self.path = path
        self.record = record
        self.events = 0
        self._stale = stale
        self._tables = tables
        self._held = held
        self._bodies: disk.AppendFile | None = None
        self._events = disk.AppendFile(path / EVENTS, fresh=False)

    def append(self, event: Event) -> Event:
        """Stores `event` and the rows it completes before it returns, and gives it back as a reader will see it.

        Judge what it returns: text that `--record facts` leaves out is not there for a later judge either.
        Raises CannotJudgeError when the disk is full; what was stored before stays readable.
        """
        line, stored = codec.settle(kept(event, self.record))
        if self._stale:
            _remove(self.path, self._stale)
            self._stale = ()
        self._events.write(line)
        self.events += 1
        self._tables.see(stored)
        return stored

    def body(self, request_id: str, body: bytes) -> None:
        """Stores the bytes of a request that is about to be sent; does nothing unless the record is full."""
        if self.record != Record.FULL:
            return
        if self._bodies is None:
            self._bodies = disk.AppendFile(self.path / bodies.FILE, fresh=False)
        self._bodies.write(bodies.line(request_id, body))

    def amend(self, manifest: Manifest) -> None:
        """Replaces the manifest, for instance once the sizing is known. Its phases must not change."""
        disk.replace(self.path / MANIFEST, manifest_json(manifest, self.record))

    def conclude(self, judgement: Judgement) -> None:
        """Writes findings.jsonl and then verdict.json."""
        self._events.sync()
        _conclude(self.path, judgement)

    def close(self) -> None:
        """Writes the rows of what never ended and lets the directory go; a second call does nothing."""
        if self._held < 0:
            return
        try:
            self._tables.finish()
        finally:
            for file in (self._tables, self._events, self._bodies):
                if file is not None:
                    file.close()
            os.close(self._held)
            self._held = -1

    def discard(self) -> None:
        """Closes a run in which nothing happened and removes its files, and the directory if nothing else is there."""
        self.close()
        _remove(self.path, FILES)
        with suppress(OSError):
            self.path.rmdir()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def create(path: Path, manifest: Manifest, *, overwrite: bool = False, record: str = Record.TEXT) -> RunWriter:
    """Makes the run directory `path` and writes `manifest.json` before anything else.

    Raises UsageError when `path` is neither new nor an empty directory (nor, with `overwrite`,
    an older run, whose files are removed; other files never are) or `record` is none of full,
    text and facts, CannotJudgeError when it cannot be written or another process is writing it.
    """
    chosen = _record(record)
    if path.exists() and not path.is_dir():
        raise UsageError(f"{path} is a file, and a run needs a directory: choose another --out")
    with disk.writing(path, "create"):
        path.mkdir(parents=True, exist_ok=True)
    held = disk.lock(path)
    try:
        _make_room(path, overwrite)
        disk.replace(path / MANIFEST, manifest_json(manifest, chosen))
        return RunWriter(path, chosen, Tables(path, manifest.phases), held)
    except BaseException:
        os.close(held)
        raise


def reopen(path: Path) -> RunWriter:
    """Opens a stored run to go on with it: cuts off a torn last line and makes its tables anew.

    Its conclusions (verdict.json, report.html, …) are removed when the first event is added.
    Raises as `read_manifest`, `read_events` and `create` do.
    """
    manifest, record = read_manifest(path), read_record(path)
    held = disk.lock(path)
    try:
        tables = rebuilt(path, manifest.phases, read_events(path), finished=False)
        return RunWriter(path, record, tables, held, stale=CONCLUSIONS)
    except BaseException:
        os.close(held)
        raise


def rebuild(path: Path, judgement: Judgement) -> None:
    """Makes every table, findings.jsonl and verdict.json anew from manifest.json and events.jsonl.

    Raises as `read_manifest` and `read_events` do, and CannotJudgeError when the run is still being written.
    """
    manifest = read_manifest(path)
    held = disk.lock(path)
    try:
        rebuilt(path, manifest.phases, read_events(path), finished=True).close()
        _conclude(path, judgement)
    finally:
        os.close(held)


def discard_if_empty(path: Path) -> bool:
    """Removes a closed run in which nothing ever happened, and its directory if that is all it held; True if it did."""
    if not is_run(path) or (path / EVENTS).stat().st_size:
        return False
    _remove(path, FILES)
    with contextlib.suppress(OSError):  # not empty: something there is not ours
        path.rmdir()
    return True


def _conclude(path: Path, judgement: Judgement) -> None:
    disk.replace(path / FINDINGS, conclusion.findings_jsonl(judgement))
    disk.replace(path / VERDICT, conclusion.verdict_json(judgement))


def _record(name: str) -> Record:
    try:
        return Record(name)
    except ValueError as problem:
        raise UsageError(f"cannot record {name!r}: choose full, text or facts") from problem


def _make_room(path: Path, overwrite: bool) -> None:
    if all(entry.name in LEFTOVERS for entry in path.iterdir()):
        return
    if not is_run(path):
        raise UsageError(
            f"{path} is not empty and not a kvstress run, so nothing in it is touched: choose another --out"
        )
    if not overwrite:
        raise UsageError(f"{path} already holds a run: choose another --out, or replace it with --overwrite")
    _remove(path, (*FILES[:-1], *LEFTOVERS))


def _remove(path: Path, names: tuple[str, ...]) -> None:
    for name in names:
        with disk.writing(path / name, "remove"):
            (path / name).unlink(missing_ok=True)
