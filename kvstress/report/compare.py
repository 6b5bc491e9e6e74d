"""One page for a comparison: the verdict, every row with its interval, and the two survival curves.

It is made from compare.json and the first failures alone. Bars of ratios share one axis, so that the eye finds the
row that moved.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from kvstress.core.manifest import Manifest
from kvstress.report.templates import template

_LOOK = {"REGRESSED": "FAIL", "IMPROVED": "PASS", "UNCHANGED": "PASS", "CANNOT TELL": "INVALID"}
Times = Sequence[tuple[float, bool]]
Runs = Sequence[tuple[str, Manifest]]


def page(found: Mapping[str, Any], base: Runs, head: Runs, base_times: Times, head_times: Times) -> str:
    """The content of compare.html. Times are (steps, failed) a run."""
    return template("compare.html.j2").render(
        found=found,
        look=_LOOK[found["verdict"]],
        sides=[("base", base), ("head", head)],
        workload=base[0][1].workload,
        curve=_curve(base_times, head_times),
        ratios=_ratios(found["rows"]),
        embedded=any(manifest.target.embedded for _, manifest in (*base, *head)),
    )


def _curve(base: Times, head: Times) -> str | None:
    if not base or not head:
        return None
    from kvstress.report import charts, compare_chart

    return charts.svg(
        compare_chart.survival(base, head), "curve", "Share of runs without a failure, by prompt, for base and head"
    )


def _ratios(rows: Sequence[Mapping[str, Any]]) -> str | None:
    shown = [row for row in rows if row["ratio"] is not None and row["interval"] is not None]
    if not shown:
        return None
    from kvstress.report import charts, compare_chart

    return charts.svg(compare_chart.ratios(shown), "ratios", "Ratios of head over base with their 95 % intervals")
