"""Two survival curves, and ratios with their intervals: what a comparison is seen by."""

from collections.abc import Mapping, Sequence
from typing import Any

from kvstress.report.charts import FAILURE, INK, SERIES, WIDTH, Chart, _styled

Times = Sequence[tuple[float, bool]]
_DASHES = {"base": [1, 0], "head": [7, 5]}
_COLOURS = {"base": SERIES[0], "head": FAILURE}


def steps(times: Times, side: str) -> list[dict[str, Any]]:
    """Corners of the step curve: the share of runs without a failure (Kaplan and Meier), from prompt 0 on."""
    surviving, corners = 1.0, [{"side": side, "prompt": 0.0, "surviving": 1.0}]
    for at in sorted({steps for steps, _ in times}):
        going = sum(steps >= at for steps, _ in times)
        surviving *= 1 - sum(failed for steps, failed in times if steps == at) / going
        corners.append({"side": side, "prompt": at, "surviving": surviving})
    return corners


def survival(base: Times, head: Times) -> Chart:
    """Both curves; a tick where a run ended without a failure."""
    import altair as alt

    points = steps(base, "base") + steps(head, "head")
    ends = [
        {"side": side, "prompt": at, "surviving": _at(steps(times, side), at)}
        for side, times in (("base", base), ("head", head))
        for at, failed in times
        if not failed
    ]
    scale = alt.Scale(domain=list(_COLOURS), range=list(_COLOURS.values()))
    colour = alt.Color("side:N", scale=scale, legend=alt.Legend(title=None, orient="top", direction="horizontal"))
    line = alt.Chart({"values": points}, width=WIDTH, height=220).mark_line(interpolate="step-after", strokeWidth=2.2)
    drawn = line.encode(
        x=alt.X("prompt:Q", title="prompt", axis=alt.Axis(format=",d", tickMinStep=1)),
        y=alt.Y(
            "surviving:Q", title="runs without a failure", scale=alt.Scale(domain=[0, 1]), axis=alt.Axis(format=".0%")
        ),
        color=colour,
        # Where both go the same way, the one below still shows.
        strokeDash=alt.StrokeDash(
            "side:N", scale=alt.Scale(domain=list(_DASHES), range=list(_DASHES.values())), legend=None
        ),
    )
    if not ends:
        return _styled(drawn)
    ticks = alt.Chart({"values": ends}).mark_point(shape="cross", size=70, filled=True)
    return _styled(alt.layer(drawn, ticks.encode(x="prompt:Q", y="surviving:Q", color=colour)))


def _at(corners: Sequence[Mapping[str, Any]], prompt: float) -> float:
    return float([corner["surviving"] for corner in corners if corner["prompt"] <= prompt][-1])


def ratios(rows: Sequence[Mapping[str, Any]]) -> Chart:
    """A bar from end to end of each interval, a mark at the ratio, and a line where nothing has changed."""
    import altair as alt

    values = [
        {"metric": row["metric"][:60], "ratio": row["ratio"], "low": row["interval"][0], "high": row["interval"][1]}
        for row in rows
    ]
    base = alt.Chart({"values": values}, width=WIDTH - 160, height=max(60, 24 * len(values)))
    # Fonts differ: a label that is drawn wider than it was measured would lose its first letters.
    room = min(220, 8 * max(len(value["metric"]) for value in values))
    y = alt.Y("metric:N", title=None, sort=None, axis=alt.Axis(labelLimit=220, minExtent=room))
    x = alt.X("low:Q", title="head / base", scale=alt.Scale(type="log", zero=False, nice=False, padding=10))
    bars = base.mark_rule(strokeWidth=3, color=SERIES[0]).encode(y=y, x=x, x2="high:Q")
    marks = base.mark_point(filled=True, size=60, color=INK, opacity=1).encode(y=y, x="ratio:Q")
    same = alt.Chart({"values": [{"one": 1.0}]}).mark_rule(color=INK, strokeDash=[4, 4]).encode(x="one:Q")
    return _styled(alt.layer(same, bars, marks))
