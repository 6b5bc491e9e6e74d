"""`kvstress workloads prepare speedbench`: the user's own copy of it as `run --data` reads it, and its digests.

Nothing is fetched and nothing is filled in: rows that the published files leave open need their sources' licences, so
they are refused by name. Two preparations of one dataset differ in places; digests per prompt show where.
"""

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec

from kvstress.core.errors import UsageError
from kvstress.store import disk
from kvstress.workload.dataset import DataFile, Row, read

_STEMS = ("throughput_1k", "throughput_2k", "throughput_8k", "throughput_16k", "throughput_32k", "qualitative")
_PREFIX = 64
FINGERPRINTS = "fingerprints.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Preparation:
    """One file: where it was written, its digest, its rows by category, and how its prompts begin alike."""

    source: Path
    written: Path
    sha256: str
    rows: int
    categories: dict[str, int]
    shared: int

    def line(self) -> str:
        """It in one line."""
        kinds = ", ".join(f"{count} {name}" for name, count in sorted(self.categories.items()))
        alike = f"; {self.shared} begin like another one" if self.shared else ""
        return f"{self.source.name} -> {self.written} : {self.rows} rows ({kinds}){alike}; sha256 {self.sha256[:16]}"


def prepare_speedbench(folder: Path, out: Path) -> list[Preparation]:
    """Read every SPEED-Bench file in `folder` and write it into `out`. Raises UsageError naming file and row."""
    if not folder.is_dir():
        raise UsageError(f"--from {folder}: no such directory")
    found = [
        path for stem in _STEMS for path in (folder / f"{stem}.jsonl", folder / f"{stem}.parquet") if path.is_file()
    ]
    if not found:
        raise UsageError(f"--from {folder}: holds none of {', '.join(f'{stem}.jsonl or .parquet' for stem in _STEMS)}")
    with disk.writing(out, "create"):
        out.mkdir(parents=True, exist_ok=True)
    prepared, prints = [], {}
    for path in found:
        one, digests = _prepared(path, out)
        prepared.append(one)
        prints[one.written.name] = {"source": path.name, "sha256": one.sha256, "rows": one.rows, "prompts": digests}
    disk.replace(out / FINGERPRINTS, (json.dumps(prints, indent=1) + "\n").encode())
    return prepared


def _prepared(path: Path, out: Path) -> tuple[Preparation, dict[str, str]]:
    with disk.reading(path):
        data = read(str(path), path.read_bytes())
    open_row = next((row for row in data.rows if row.unresolved), None)
    if open_row is not None:
        raise UsageError(
            f"{path} row {open_row.number} still holds the placeholder of the published file: fill its prompts in with "
            "the dataset's own preparation first (Model-Optimizer's prepare_data.py or NeMo-Skills' prepare.py)"
        )
    written = out / f"{path.stem}.jsonl"
    if written.resolve() == path.resolve():
        raise UsageError(f"--out {out} is the directory that is read: choose another")
    disk.replace(written, b"".join(_lines(data)))
    return (
        Preparation(
            source=path,
            written=written,
            sha256=data.sha256,
            rows=len(data.rows),
            categories=dict(Counter(row.category or "no category" for row in data.rows)),
            shared=_shared(data.rows),
        ),
        {str(row.number): row.sha256 for row in data.rows},
    )


def _lines(data: DataFile) -> Iterator[bytes]:
    for row in data.rows:
        category = {"category": row.category} if row.category is not None else {}
        yield msgspec.json.encode({**category, "messages": [dict(message) for message in row.messages]}) + b"\n"


def _shared(rows: tuple[Row, ...]) -> int:
    """How many prompts begin as another one does: a cache may answer the beginning of those out of the other's."""
    heads = Counter(str(row.messages[0]["content"])[:_PREFIX] for row in rows)
    return sum(count for count in heads.values() if count > 1)
