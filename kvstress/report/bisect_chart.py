"""Limit against pool fill and first failure: the curve that a search is made for.

A server that fails later with a larger pool shows two lines that rise together. Points that did not fail
lie where their run ended, in shapes of their own: survived is evidence up to there, not exercised is none.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from kvstress.report.bisect_table import by_value
from kvstress.report.charts import FAILURE, FULL, INK, SERIES, WIDTH, Chart, _styled

FIRST, FILL, SURVIVED, IDLE, REFUSED = "first failure", "pool full", "survived to", "not exercised", "refused to start"
_LOOK = {
    FIRST: ("M-1,-1L1,1M-1,1L1,-1", FAILURE),
    FILL: ("square", FULL),
    SURVIVED: ("triangle-up", SERIES[3]),
    IDLE: ("diamond", SERIES[0]),
    REFUSED: ("triangle-down", SERIES[5]),
}


def rows(found: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """Points (series, limit, prompt) of the chart; a refusal stands on the axis."""
    points = []
    for one in by_value(found):
        ended = {"SURVIVED": SURVIVED, "NOT EXERCISED": IDLE}.get(one["outcome"])
        marks = [(FIRST, one["first_failure"]), (FILL, one["pool_fill"])]
        marks += [(ended, one["exposure"])] if ended else []
        marks += [(REFUSED, 0)] if one["outcome"] == "REFUSED TO START" else []
        points += [{"series": name, "limit": one["number"], "prompt": at} for name, at in marks if at is not None]
    return points


def curve(found: Mapping[str, Any]) -> Chart | None:
    """The chart; None when no probe has a point in it."""
    points = rows(found)
    if not points:
        return None
    import altair as alt

    names = [name for name in _LOOK if any(one["series"] == name for one in points)]
    unit = f", {found['unit']}" if found["unit"] else ""
    shapes = alt.Scale(domain=names, range=[_LOOK[name][0] for name in names])
    colours = alt.Scale(domain=names, range=[_LOOK[name][1] for name in names])
    legend = alt.Legend(title=None, orient="top", direction="horizontal", symbolSize=90, columnPadding=18)
    base = alt.Chart({"values": points}, width=WIDTH, height=300).encode(
        x=alt.X("limit:Q", title=f"{found['knob']}{unit}", scale=alt.Scale(zero=False, padding=14)),
        y=alt.Y("prompt:Q", title="prompt", axis=alt.Axis(format=",d", tickMinStep=1)),
        color=alt.Color("series:N", scale=colours, legend=legend),
    )
    lines = base.transform_filter(alt.FieldOneOfPredicate(field="series", oneOf=[FIRST, FILL]))
    marks = base.mark_point(size=75, strokeWidth=2.2, opacity=1, filled=False).encode(
        shape=alt.Shape("series:N", scale=shapes, legend=legend)
    )
    return _styled(alt.layer(lines.mark_line(strokeWidth=1.2, opacity=0.6), marks, *_edge(found)))


def _edge(found: Mapping[str, Any]) -> list[Chart]:
    """The stretch in which the boundary lies."""
    import altair as alt

    if found["boundary"] is None:
        return []
    numbers = {one["value"]: one["number"] for one in found["probes"]}
    ends = [numbers[value] for name in ("failing", "passing") if (value := found["boundary"][name]) in numbers]
    if len(ends) < 2:
        return []
    band = {"values": [{"from": min(ends), "to": max(ends)}]}
    return [alt.Chart(band).mark_rect(color=INK, opacity=0.13).encode(x="from:Q", x2="to:Q")]
