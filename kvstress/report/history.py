"""The history page: four curves over the commits that were accepted, a mark where one of them changed.

A commit without a failure has no first failure to draw: its point stands where its run ended, in another shape, because
"none in 143" is not 143.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kvstress.report import hostile
from kvstress.report.templates import template


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """One number a commit: None not observed, inf no failure. `reached` is how far its longest run came, in steps.

    `change` is the commit's place from which on the values differ, `p` how unlikely that is by chance.
    """

    name: str
    unit: str
    values: tuple[float | None, ...]
    reached: tuple[float, ...]
    change: int | None
    p: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """The commits of one workload, limit and hardware: (commit, day, runs)."""

    title: str
    commits: tuple[tuple[str, str, int], ...]
    series: tuple[Series, ...]


def page(lines: Sequence[Line], embedded: bool) -> str:
    """The content of the page."""
    return template("history.html.j2").render(lines=[_shown(line) for line in lines], embedded=embedded)


def _shown(line: Line) -> dict[str, Any]:
    drawn = [(series, _chart(line, series)) for series in line.series]
    return {
        "title": line.title,
        "charts": [{"name": series.name, "svg": svg, "said": _said(line, series)} for series, svg in drawn if svg],
        "absent": [series.name for series, svg in drawn if not svg],
        "rows": [_row(line, place) for place in reversed(range(len(line.commits)))],
        "names": [f"{series.name}, {series.unit}" for series in line.series],
    }


def _said(line: Line, series: Series) -> str:
    if len(line.commits) == 1:
        return "one commit, so nothing can have changed"
    if series.change is None:
        return "no change that chance would not make as well"
    return f"changed with {line.commits[series.change][0]} (p {series.p:.3f})"


def _row(line: Line, place: int) -> dict[str, Any]:
    commit, day, runs = line.commits[place]
    cells = [_cell(series.values[place], series.reached[place]) for series in line.series]
    return {
        "commit": commit,
        "day": day,
        "runs": runs,
        "cells": cells,
        "changed": any(s.change == place for s in line.series),
    }


def _cell(value: float | None, reached: float) -> str:
    if value is None:
        return "–"
    return f"none in {reached:g}" if math.isinf(value) else f"{value:.4g}"


def _chart(line: Line, series: Series) -> str | None:
    points = [
        {
            "place": place,
            "commit": line.commits[place][0][:12],
            "value": series.reached[place] if math.isinf(v) else v,
            "none": math.isinf(v),
        }
        for place, v in enumerate(series.values)
        if v is not None
    ]
    if not points:
        return None
    from kvstress.report import charts, history_chart

    drawn = history_chart.curve(points, f"{series.name}, {series.unit}", series.change)
    return charts.svg(drawn, hostile.line(series.name, 40).replace(" ", "-"), f"{series.name} over commits")
