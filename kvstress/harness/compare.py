"""`kvstress compare`: two sides of runs, held against each other row by row.

Runs are pooled only when they were sent the same traffic but for the seed of their prompts: seeds are what repeats are
made of, while another prompt size or phase is another experiment.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from kvstress.core.errors import CannotJudgeError, UsageError
from kvstress.core.manifest import Manifest
from kvstress.gate.change import Change as Ruled
from kvstress.gate.change import changed
from kvstress.gate.evidence import First, Seen
from kvstress.harness.seen import look, skim
from kvstress.report.compare import page
from kvstress.stats.compare import compare
from kvstress.stats.facts import Change, Comparison, Facts, Side
from kvstress.stats.few import apart
from kvstress.stats.survival import Time
from kvstress.store import disk
from kvstress.store.glance import has_tables
from kvstress.store.reading import EVENTS
from kvstress.workload.build import TRAFFIC

SCHEMA_VERSION = 1
# From this size on a run is read from its tables, where there are any: single gaps between chunks are then left out.
SKIMMED_BYTES = 256 << 20
_WORDS = {"ttft": "TTFT", "itl": "ITL", "tpot": "TPOT", "e2e": "E2E"}
_RULED = {Ruled.REGRESSED: Change.REGRESSED, Ruled.IMPROVED: Change.IMPROVED, Ruled.CANNOT_TELL: Change.CANNOT_TELL}


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """One run as it was read."""

    path: Path
    manifest: Manifest
    seen: Seen


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """Two sides and what came of them."""

    base: tuple[Read, ...]
    head: tuple[Read, ...]
    comparison: Comparison


def compare_runs(base: Sequence[Path], head: Sequence[Path]) -> Compared:
    """Raises UsageError when a path is no run or they were not sent the same, CannotJudgeError for a damaged run."""
    if not base or not head:
        raise UsageError("name runs on both sides: kvstress compare BASE… --with HEAD…")
    sides = tuple(tuple(map(read, paths)) for paths in (base, head))
    _check_same(sides[0] + sides[1])
    for run in (*sides[0], *sides[1]):
        if run.seen.first is None:
            raise CannotJudgeError(f"{run.path} completed no prompt, so there is nothing of it to compare")
    return Compared(
        base=sides[0], head=sides[1], comparison=judged(*(tuple(run.seen for run in side) for side in sides))
    )


def judged(base: tuple[Seen, ...], head: tuple[Seen, ...]) -> Comparison:
    """The comparison of two sides that were sent the same."""

    paired = {seen.plan for seen in head} <= {seen.plan for seen in base}

    def rule(base_facts: Side, head_facts: Side) -> tuple[Change, str]:
        if not paired and any(facts.first is not None and facts.first.failed for facts in base_facts):
            return apart(base_facts, head_facts)
        # Without a failure in the base, any of its runs will do to say that the head's step was passed before.
        found = changed(base, head) if paired else changed(*(_pooled(side) for side in (base, head)))
        return _RULED[found.change], found.said

    return compare(tuple(map(facts, base)), tuple(map(facts, head)), rule)


def _pooled(side: tuple[Seen, ...]) -> tuple[Seen, ...]:
    return tuple(replace(seen, plan="") for seen in side)


def read(path: Path) -> Read:
    """One run: judged anew from its events, or skimmed from its tables when it is a very long one."""
    long = (path / EVENTS).is_file() and (path / EVENTS).stat().st_size >= SKIMMED_BYTES
    manifest, seen = skim(path) if long and has_tables(path) else _looked(path)
    return Read(path=path, manifest=manifest, seen=seen)


def _looked(path: Path) -> tuple[Manifest, Seen]:
    manifest, _, seen = look(path)
    return manifest, seen


def facts(seen: Seen) -> Facts:
    """What the comparison asks of a run."""
    first = seen.first
    return Facts(
        run=seen.run,
        first=None if first is None else Time(steps=float(first.step), failed=first.failed),
        signature=None if first is None else first.signature,
        fill=seen.levels.get("pool_fill"),
        capacity=seen.levels.get("capacity"),
        errors=int(seen.levels.get("errors") or 0),
        requests=int(seen.levels.get("requests") or 0),
        signatures=seen.signatures,
        samples={
            f"{phase} {_WORDS[word]}": tuple(value for _, value in samples)
            for (word, phase), samples in seen.latencies.items()
            if word in _WORDS
        },
        pace=tuple((tokens, seconds) for _, tokens, seconds in seen.paces),
        batches=seen.batches,
    )


def traffic_of(manifest: Manifest) -> Mapping[str, Any]:
    """What decided what was sent, but for the seed."""
    decided = {key: manifest.parameters.get(key) for key in TRAFFIC}
    return {"workload": manifest.workload, **decided, "data": [dict(source) for source in manifest.sources]}


def traffic_key(manifest: Manifest) -> str:
    """The same for runs that may be pooled."""
    return sha256(json.dumps(traffic_of(manifest), sort_keys=True, default=str).encode()).hexdigest()[:16]


def _check_same(runs: Sequence[Read]) -> None:
    first = runs[0]
    for other in runs[1:]:
        ours, theirs = traffic_of(first.manifest), traffic_of(other.manifest)
        different = [key for key in ours if ours[key] != theirs[key]]
        if different:
            what = "; ".join(f"{key}: {_short(ours[key])} and {_short(theirs[key])}" for key in different[:3])
            raise UsageError(
                f"{first.path} and {other.path} were not sent the same, so nothing of theirs compares: {what}"
            )
    embedded = {run.manifest.target.embedded for run in runs}
    if len(embedded) > 1:
        raise UsageError("one side is of the embedded reference server and the other of a real engine")


def _short(value: Any) -> str:
    text = json.dumps(value, default=str)
    return text if len(text) <= 80 else text[:79] + "…"


def json_of(found: Compared) -> dict[str, Any]:
    """compare.json, which is also what `--json` prints."""
    told = found.comparison
    return {
        "schema_version": SCHEMA_VERSION,
        "verdict": told.verdict.value,
        "said": told.said,
        "base": [str(run.path) for run in found.base],
        "head": [str(run.path) for run in found.head],
        "rows": [
            {**asdict(row), "interval": row.interval and list(row.interval), "verdict": row.verdict.value}
            for row in told.rows
        ],
    }


def write(found: Compared, folder: Path) -> dict[str, Any]:
    """Write compare.json and compare.html into `folder`; what compare.json holds."""
    with disk.writing(folder, "create"):
        folder.mkdir(parents=True, exist_ok=True)
    content = json_of(found)
    disk.replace(folder / "compare.json", (json.dumps(content, ensure_ascii=False, indent=2) + "\n").encode())
    times: Callable[[tuple[Read, ...]], list[tuple[float, bool]]] = lambda side: [  # noqa: E731
        (float(first.step), first.failed) for run in side if (first := _of(run)) is not None
    ]
    html = page(
        content,
        [(run.path.name, run.manifest) for run in found.base],
        [(run.path.name, run.manifest) for run in found.head],
        times(found.base),
        times(found.head),
    )
    disk.replace(folder / "compare.html", html.encode("utf-8", "replace"))
    return content


def _of(run: Read) -> First | None:
    return run.seen.first
