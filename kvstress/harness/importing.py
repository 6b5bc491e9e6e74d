"""`kvstress workloads import`: a trace of any known format becomes a workload and a file of normalised turns.

Row by row from disk to disk, so that the size of a trace does not matter. What was decided about it (format, history,
units, block size) is told, because a wrong guess there sends other traffic than the trace was.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from itertools import chain
from pathlib import Path
from typing import BinaryIO

import msgspec

from kvstress.core.errors import UsageError
from kvstress.core.turn import Turn
from kvstress.core.words import cap
from kvstress.store import disk
from kvstress.traces.declared import Declared, History
from kvstress.traces.detect import FORMATS, HEAD, detected
from kvstress.traces.row import Notes
from kvstress.traces.sieve import sieved
from kvstress.traces.turns import turns

_MOST_NAMED = 12
_TEMPLATE = """\
# Hunts: what this trace's traffic breaks.
#
# Imported from {origin} ({format}); {rows} requests of {sessions} sessions.
name = "replay"
hunts = "what the traffic of an imported trace breaks"
stream = false

[source]
kind = "trace"
file = {file}
sha256 = "{sha256}"
format = "{format}"

[[phases]]
name = "turn"
max_tokens = 1024
expect = "answer-or-refusal"

[schedule]
{schedule}

[sampling]
temperature = 0.0

[stop]
max_duration = "60m"

[aside]
when = "after"
max_requests = 4
"""
_TIMED = 'kind = "trace"'
_UNTIMED = 'kind = "closed"\nlanes = 4'


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """What was written, and what a person must know of it, line by line."""

    workload: Path
    trace: Path
    rows: int
    told: tuple[str, ...]


def import_trace(
    path: Path,
    out: Path,
    name: str | None,
    *,
    overwrite: bool,
    history: History | None = None,
    block: int | None = None,
) -> Imported:
    """Read `path` (a file, or a directory of files in one format) and write `out` and the turns beside it.

    `history` and `block` (tokens) are what the user says of the rows; None leaves both to the format.

    Raises UsageError naming the file and the line of a row that cannot be sent.
    """
    files = _files(path)
    trace = out.with_suffix(".jsonl")
    _refuse(files, out, trace, name, overwrite)
    named = name or _detected(files[0])
    notes, declared = Notes(name=str(files[0])), Declared(history=history, block=block)
    unfinished = trace.with_name(trace.name + ".part")
    try:
        with disk.writing(trace, "write"), unfinished.open("wb") as file:
            found = _written(file, chain.from_iterable(_read(one, named, notes, declared) for one in files))
        if not found.rows:
            raise UsageError(f"{path} holds no request ({_left_out(notes) or 'it is empty'})")
        unfinished.replace(trace)
    finally:
        unfinished.unlink(missing_ok=True)
    text = _TEMPLATE.format(
        origin=msgspec.json.encode(path.name).decode().strip('"'),
        format=named,
        rows=found.rows,
        sessions=found.sessions,
        file=msgspec.json.encode(trace.name).decode(),
        sha256=found.sha256,
        schedule=_TIMED if found.timed else _UNTIMED,
    )
    disk.replace(out, text.encode())
    return Imported(workload=out, trace=trace, rows=found.rows, told=tuple(_told(named, notes, found, declared)))


def _files(path: Path) -> list[Path]:
    files = sorted(one for one in path.iterdir() if one.is_file()) if path.is_dir() else [path]
    if not files or not files[0].is_file():
        raise UsageError(f"{path}: no such file, or a directory without files")
    return files


def _refuse(files: list[Path], out: Path, trace: Path, name: str | None, overwrite: bool) -> None:
    if name is not None and name not in FORMATS:
        raise UsageError(f"--format {name}: no such format; there are {', '.join(FORMATS)}")
    if out.suffix != ".toml":
        raise UsageError(f"--out {out}: a workload's file ends in .toml")
    if not out.parent.is_dir():
        raise UsageError(f"--out {out}: there is no directory {out.parent}")
    for one in (out, trace):
        if any(one.resolve() == file.resolve() for file in files):
            raise UsageError(f"--out {out}: {one} is the trace itself; choose another name")
        if one.exists() and not overwrite:
            raise UsageError(f"{one} exists: choose another --out, or --overwrite")


def _detected(file: Path) -> str:
    with disk.reading(file), file.open("rb") as opened:
        return detected(opened.read(HEAD), str(file))


def _read(path: Path, name: str, notes: Notes, declared: Declared) -> Iterator[Turn]:
    notes.name = str(path)
    with disk.reading(path), path.open("rb") as file:
        yield from turns(declared.rows(sieved(FORMATS[name](file, notes), notes)), notes)


@dataclass(slots=True, kw_only=True)
class _Written:
    rows: int = 0
    timed: bool = True
    sha256: str = ""
    sessions: int = 0


def _written(file: BinaryIO, found: Iterator[Turn]) -> _Written:
    digest, encoder = sha256(), msgspec.json.Encoder()
    written = _Written()
    for turn in found:
        values = {
            key: value for key, value in msgspec.to_builtins(turn).items() if value not in (None, "", [], {}, 0.0)
        }
        line = encoder.encode({"session": turn.session, "turn": turn.turn, **values}) + b"\n"
        digest.update(line)
        file.write(line)
        written.rows += 1
        written.timed = written.timed and turn.at is not None
        written.sessions += turn.turn == 0
    written.sha256 = digest.hexdigest()
    return written


def _told(name: str, notes: Notes, found: _Written, declared: Declared) -> Iterator[str]:
    yield f"format: {name}; {found.rows} requests of {found.sessions} sessions"
    yield from (f"{key}: {value}" for key, value in (notes.told | declared.told()).items())
    when = (
        "when the trace says (--set source.speed=2 for twice as fast)" if found.timed else "four lanes, no times known"
    )
    yield f"sent: {when}"
    if notes.left_out:
        yield f"left out: {_left_out(notes)}"
    if notes.unknown:
        named = ", ".join(f"{cap(key, 40)} ({count})" for key, count in notes.unknown.most_common(_MOST_NAMED))
        yield f"unknown fields, not sent: {named}" + (" …" if len(notes.unknown) > _MOST_NAMED else "")


def _left_out(notes: Notes) -> str:
    return ", ".join(f"{count} × {why}" for why, count in notes.left_out.items())
