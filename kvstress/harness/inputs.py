"""Reading what a run is made of: the workload file and the user's data files.

The workload stage works on text and bytes; finding and opening files is done here, so that
every "not found" names the path that was tried and what there is instead.
"""

from collections.abc import Iterator, Mapping
from hashlib import sha256
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

from kvstress.core.errors import UsageError
from kvstress.workload.content import Data, stems
from kvstress.workload.dataset import read
from kvstress.workload.format import Spec
from kvstress.workload.sources import Trace
from kvstress.workload.trace import TraceFile

_REPOSITORY = Path(__file__).resolve().parents[2] / "workloads"


def shipped_workloads() -> dict[str, Traversable]:
    """Name → file of the workloads that come with kvstress (in a checkout: its `workloads/` folder)."""
    packaged = files("kvstress") / "workloads"
    folder: Traversable = packaged if packaged.is_dir() else _REPOSITORY
    entries = folder.iterdir() if folder.is_dir() else ()
    return {entry.name.removesuffix(".toml"): entry for entry in entries if entry.name.endswith(".toml")}


def workload_text(name: str) -> tuple[str, str]:
    """The TOML text of a shipped workload or of a file, and what to call it in messages."""
    path = Path(name)
    if path.suffix == ".toml" or path.is_file():
        return _read_text(path), str(path)
    shipped = shipped_workloads()
    if name not in shipped:
        raise UsageError(f"no workload named {name!r}: there are {', '.join(sorted(shipped))}, or give a .toml file")
    return shipped[name].read_text(encoding="utf-8"), name


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot read workload file {path}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"workload file {path} is not UTF-8 text (byte {error.start})") from error


def data_file(folder: Path, stem: str) -> tuple[str, bytes]:
    """The first of `stem`.jsonl and `stem`.parquet in `folder`: its path and content."""
    if not folder.is_dir():
        raise UsageError(f"--data {folder}: no such directory")
    candidates = [folder / f"{stem}.jsonl", folder / f"{stem}.parquet"]
    found = next((path for path in candidates if path.is_file()), None)
    if found is None:
        raise UsageError(f"--data {folder}: neither {candidates[0].name} nor {candidates[1].name} is there")
    try:
        content = found.read_bytes()
    except OSError as error:
        raise UsageError(f"cannot read {found}: {error.strerror or error}") from error
    if not content:
        raise UsageError(f"{found} is empty")
    return str(found), content


def data_files(spec: Spec, folder: Path) -> Data:
    """The data files that `spec` reads, from `folder`. Raises UsageError naming what is not there."""
    if isinstance(spec.source, Trace):
        return {spec.source.file: trace_file(folder / spec.source.file)}
    found = {stem: data_file(folder, stem) for stem in stems(spec)}
    return {stem: read(name, content) for stem, (name, content) in found.items()}


def trace_file(path: Path) -> TraceFile:
    """A normalised trace, read once for its digest and then row by row. Raises UsageError when it is not there."""
    digest, rows = sha256(), 0
    try:
        with path.open("rb") as file:
            for line in file:
                digest.update(line)
                rows += 1
    except OSError as error:
        raise UsageError(f"cannot read the trace {path}: {error.strerror or error}") from error
    return TraceFile(name=str(path), sha256=digest.hexdigest(), rows=rows, lines=lambda: _lines(path))


def _lines(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        yield from file


def parse_settings(pairs: list[str]) -> Mapping[str, str]:
    """`--set key=value` pairs; a later one wins."""
    split = [pair.partition("=") for pair in pairs]
    bad = next((pair for pair, (key, sign, _) in zip(pairs, split, strict=True) if not sign or not key.strip()), None)
    if bad is not None:
        raise UsageError(f"--set {bad}: expected key=value, as in --set max_steps=20")
    return {key.strip(): value for key, _, value in split}


def parse_headers(lines: list[str]) -> Mapping[str, str]:
    """`--header 'Name: value'` lines. The value is never repeated in a message."""
    split = [line.partition(":") for line in lines]
    if any(not sign or not name.strip() for name, sign, _ in split):
        raise UsageError("--header: expected 'Name: value' (the header given is not shown, it may hold a secret)")
    return {name.strip(): value.strip() for name, _, value in split}
