"""The server's own numbers on either side of a moment, with what they did in between.

A counter that rose with the failure is evidence, and so is one that stood still; a metric that
the server does not have is neither, and is listed apart so that no blank can be read as a zero.
"""

from collections.abc import Callable
from dataclasses import dataclass

from kvstress.core.sample import Sample
from kvstress.report.hostile import line
from kvstress.report.phrases import NOT_EXPORTED, percent

RAW_ROWS = 80


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricRow:
    """One metric in words; `moved` when both sides are known and differ."""

    name: str
    before: str
    at: str
    difference: str
    moved: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricTable:
    """Canonical metrics, those that the server has none of, and its own series with how many were left off."""

    rows: tuple[MetricRow, ...]
    absent: tuple[str, ...]
    raw: tuple[MetricRow, ...]
    raw_left_off: int
    problems: tuple[str, ...]


def _number(value: float) -> str:
    return f"{value:,.0f}" if value == round(value) and abs(value) < 1e15 else f"{value:,.6g}"


def _points(value: float) -> str:
    return percent(value).replace("%", "points")


_NAMES: tuple[tuple[str, str, Callable[[float], str], Callable[[float], str]], ...] = (
    ("kv_usage", "KV pool in use", percent, _points),
    ("kv_capacity", "KV capacity, tokens", _number, _number),
    ("kv_free", "KV free, tokens", _number, _number),
    ("kv_cached", "KV cached, tokens", _number, _number),
    ("snapshots_free", "snapshots free", _number, _number),
    ("evictions", "evictions", _number, _number),
    ("preemptions", "preemptions", _number, _number),
    ("prefix_queries", "prefix cache queries, tokens", _number, _number),
    ("prefix_hits", "prefix cache hits, tokens", _number, _number),
    ("running", "requests running", _number, _number),
    ("waiting", "requests waiting", _number, _number),
    ("prompt_tokens", "prompt tokens", _number, _number),
    ("generation_tokens", "generated tokens", _number, _number),
    ("requests_completed", "requests completed", _number, _number),
    ("requests_failed", "requests failed", _number, _number),
)


def table(before: Sample | None, at: Sample | None) -> MetricTable | None:
    """The metrics of two samples; None when there is neither."""
    if before is None and at is None:
        return None
    seen = [(n, w, d, getattr(before, k, None), getattr(at, k, None)) for k, n, w, d in _NAMES]
    return MetricTable(
        rows=tuple(_row(n, b, a, w, d) for n, w, d, b, a in seen if b is not None or a is not None),
        absent=tuple(name for name, _, _, b, a in seen if b is None and a is None),
        problems=tuple(_problem(side, s) for side, s in (("before", before), ("at", at)) if s is None or s.problem),
        **_raw(before, at),  # type: ignore[arg-type]
    )


def _problem(side: str, sample: Sample | None) -> str:
    if sample is None or sample.problem is None:
        return f"{side}: no sample was taken"
    return f"{side}: could not be read: {line(sample.problem, 160)}"


def _raw(before: Sample | None, at: Sample | None) -> dict[str, object]:
    old, new = before.raw if before else {}, at.raw if at else {}
    names = sorted({*old, *new}, key=lambda name: (old.get(name) == new.get(name), name))
    shown = names[:RAW_ROWS]
    rows = tuple(_row(line(n, 120), old.get(n), new.get(n), _number, _number) for n in shown)
    return {"raw": rows, "raw_left_off": len(names) - len(shown)}


def _row(
    name: str, before: float | None, at: float | None, words: Callable[[float], str], change: Callable[[float], str]
) -> MetricRow:
    known = before is not None and at is not None
    difference = at - before if before is not None and at is not None else 0.0
    sign = "+" if difference > 0 else "−" if difference < 0 else ""
    return MetricRow(
        name=name,
        before=NOT_EXPORTED if before is None else words(before),
        at=NOT_EXPORTED if at is None else words(at),
        difference=(sign + change(abs(difference)) if difference else "unchanged") if known else "not known",
        moved=difference != 0,
    )
