"""The CSV files on disk, growing row by row; a rebuild writes new ones beside them and swaps when it has all rows.

A rebuild that fails (a corrupt event, a full disk) therefore leaves the old tables as they were.
"""

from collections.abc import Iterable
from pathlib import Path

from kvstress.core.events import Event
from kvstress.store import disk
from kvstress.store.views import TABLES, Chunk, Views


class Tables:
    """The three tables of one run, open for writing."""

    def __init__(self, directory: Path, phases: tuple[str, ...], *, suffix: str = "") -> None:
        """Starts empty tables in `directory`, with `suffix` behind their names."""
        self._views = Views(phases)
        self._directory = directory
        self._files: dict[str, disk.AppendFile] = {}
        try:
            for name in TABLES:
                self._files[name] = disk.AppendFile(directory / f"{name}{suffix}", fresh=True)
            self._add(self._views.head())
        except BaseException:
            self.discard()
            raise

    def see(self, event: Event) -> None:
        """Writes the rows that `event` completes."""
        self._add(self._views.see(event))

    def finish(self) -> None:
        """Writes the rows of steps and requests that never ended."""
        self._add(self._views.rest())

    def publish(self) -> None:
        """Moves the tables to their final names; they can grow there."""
        for name, file in self._files.items():
            file.rename(self._directory / name)

    def close(self) -> None:
        """Closes the files as they are."""
        for file in self._files.values():
            file.close()

    def discard(self) -> None:
        """Closes and removes the files."""
        self.close()
        for file in self._files.values():
            file.path.unlink(missing_ok=True)

    def _add(self, chunks: Iterable[Chunk]) -> None:
        for name, data in chunks:
            self._files[name].write(data)


def rebuilt(directory: Path, phases: tuple[str, ...], events: Iterable[Event], *, finished: bool) -> Tables:
    """New tables from `events`, in place of the old ones and still open; `finished` adds what never ended."""
    tables = Tables(directory, phases, suffix=".new")
    try:
        for event in events:
            tables.see(event)
        if finished:
            tables.finish()
        tables.publish()
    except BaseException:
        tables.discard()
        raise
    return tables
