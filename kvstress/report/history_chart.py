"""One number over commits, with the place at which it changed."""

from collections.abc import Mapping, Sequence
from typing import Any

from kvstress.report.charts import FAILURE, SERIES, WIDTH, Chart, _styled


def curve(points: Sequence[Mapping[str, Any]], title: str, change: int | None) -> Chart:
    """Points (place, commit, value, none); `none` stands for no failure up to there. `change` is a place."""
    import altair as alt

    names = {str(point["place"]): point["commit"] for point in points}
    shown = f"{names}[format(datum.value, 'd')] || ''".replace('"', "'")
    base = alt.Chart({"values": list(points)}, width=WIDTH, height=150).encode(
        x=alt.X(
            "place:Q", title="commit", axis=alt.Axis(labelExpr=shown, tickMinStep=1, labelAngle=-40, labelOverlap=True)
        ),
        y=alt.Y("value:Q", title=title, axis=alt.Axis(format=".4~g"), scale=alt.Scale(zero=False, padding=12)),
    )
    seen = base.transform_filter("!datum.none")
    free = base.transform_filter("datum.none").mark_point(shape="triangle-up", size=70, strokeWidth=2, color=SERIES[3])
    layers = [
        seen.mark_line(strokeWidth=1.2, opacity=0.6, color=SERIES[0]),
        seen.mark_point(filled=True, size=45, opacity=1, color=SERIES[0]),
        free,
    ]
    if change is not None:
        rule = alt.Chart({"values": [{"at": change - 0.5}]}).mark_rule(color=FAILURE, strokeDash=[5, 4], strokeWidth=2)
        layers.append(rule.encode(x="at:Q"))
    return _styled(alt.layer(*layers))
