"""The two pictures of a run: what the KV pool did, and how long each phase took, over prompts.

They are drawn to SVG beforehand so that the page needs neither a script nor a network. Series
differ by dash and shape as well as colour, and each colour is one of a few named ones, which
lets the page's style sheet swap it in the dark without drawing the chart twice.
"""

import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kvstress.core.verdict import Judgement
from kvstress.report.fold import RunFold, lines
from kvstress.report.hostile import line
from kvstress.report.thin import Point

# The page's style sheet names these very colours: a change here is a change there.
INK, FAINT, GRID = "#33322f", "#6f6c66", "#e3e0d9"
FAILURE, FULL = "#b3261e", "#7a5200"
SERIES = ("#1a5fb4", "#a8480a", "#5b3fa0", "#1d6b3a", "#8a1f5c", "#3f5561")
DASHES = ([1, 0], [6, 3], [2, 2], [8, 3, 2, 3], [12, 4], [4, 4])
SHAPES = ("circle", "square", "triangle-up", "diamond", "triangle-down", "cross")

WIDTH = 860
MARKED = 90  # beyond so many points a series is a line without marks

Chart = Any  # altair's own types do not survive layering and concatenation


def pool_chart(fold: RunFold) -> Chart | None:
    """Free and cached tokens, and usage where exported, over prompts; None when no step had any of them."""
    tokens = {n: fold.pool[k].points() for n, k in (("free", "kv_free"), ("cached", "kv_cached")) if k in fold.pool}
    usage = fold.pool["kv_usage"].points() if "kv_usage" in fold.pool else []
    if not tokens and not usage:
        return None
    import altair as alt

    parts = []
    domain = _domain(fold, [*tokens.values(), usage])
    if tokens:
        parts.append(
            _Panel(series=tokens, domain=domain, axis="tokens in the pool", height=210, form=",d", marks=fold.judgement)
        )
    if usage:
        height, marks = (90, None) if tokens else (240, fold.judgement)
        series = {"pool in use": usage}
        parts.append(
            _Panel(
                series=series,
                domain=domain,
                axis="pool in use",
                height=height,
                form=".0%",
                legend=False,
                marks=marks,
                top=1.0,
                look=2,
            )
        )
    if len(parts) == 1:
        return _styled(_drawn(parts[0]))
    apart = alt.vconcat(*map(_drawn, parts), spacing=14)
    return _styled(apart.resolve_scale(color="independent", shape="independent", strokeDash="independent"))


def latency_chart(fold: RunFold, which: str) -> Chart | None:
    """Seconds a request took over prompts, one series a phase; `which` is e2e or ttft. None without a point."""
    series = lines(fold.e2e if which == "e2e" else fold.ttft)
    named = {_name(*key): points for key, points in sorted(series.items())[: len(SERIES)]}
    failed = [(step, value) for step, _, value in fold.failed_at.items] if which == "e2e" else []
    if not named and not failed:
        return None
    title = "end to end, s" if which == "e2e" else "to first token, s"
    domain = _domain(fold, [*named.values(), failed])
    panel = _Panel(series=named, domain=domain, axis=title, height=220, form="~g", marks=fold.judgement, failed=failed)
    return _styled(_drawn(panel))


def latency_left_out(fold: RunFold) -> int:
    """How many latency series have no room in the chart."""
    return max(0, len(lines(fold.e2e)) - len(SERIES))


def _name(phase: str, label: str) -> str:
    return " ".join(line(part, 24) for part in (phase, label) if part) or "request"


def _domain(fold: RunFold, series: Sequence[Sequence[Point]]) -> tuple[float, float]:
    steps = [step for points in series for step, _ in points]
    marks = [mark.step for mark in (fold.judgement.first_failure, fold.judgement.pool_fill) if mark is not None]
    return min([0, *steps]) - 0.5, max([1, *steps, *marks]) + 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class _Panel:
    """One set of axes: its series by name, `form` the axis' number format, `look` where in the palette it begins."""

    series: Mapping[str, Sequence[Point]]
    domain: tuple[float, float]
    axis: str
    height: int
    form: str
    legend: bool = True
    marks: Judgement | None = None
    top: float | None = None
    look: int = 0
    failed: Sequence[Point] = ()

    def ranged(self, palette: Sequence[Any]) -> Chart:
        """The scale that gives each series its own entry of `palette`."""
        import altair as alt

        names = list(self.series)
        return alt.Scale(domain=names, range=list(palette[self.look : self.look + max(1, len(names))]))


def _drawn(panel: _Panel) -> Chart:
    import altair as alt

    # A long series is a line without marks; then only the legend's dashes can say which is which.
    marked = max((len(points) for points in panel.series.values()), default=0) <= MARKED
    base = _base(panel)
    colour = alt.Color("series:N", scale=panel.ranged(SERIES), legend=_legend(panel, marked) if panel.legend else None)
    dash = alt.StrokeDash(
        "series:N", scale=panel.ranged(DASHES), legend=_legend(panel, False) if panel.legend and not marked else None
    )
    layers = [base.mark_line(strokeWidth=2).encode(color=colour, strokeDash=dash)]
    if marked:
        shape = alt.Shape(
            "series:N",
            scale=panel.ranged(SHAPES),
            legend=_legend(panel, True) if panel.legend and panel.series else None,
        )
        layers.append(base.mark_point(filled=True, size=42, opacity=1).encode(color=colour, shape=shape))
    if panel.failed:
        layers.append(_crosses(panel.failed))
    return alt.layer(*layers, *(_landmarks(panel.marks, panel.domain) if panel.marks else []))


def _base(panel: _Panel) -> Chart:
    import altair as alt

    rows = [
        {"series": n, "prompt": step, "value": value} for n, points in panel.series.items() for step, value in points
    ]
    values = [value for points in (*panel.series.values(), panel.failed) for _, value in points]
    scale, title = _scale(values, panel.top, panel.axis)
    across = alt.Scale(domain=panel.domain, nice=False)
    return alt.Chart({"values": rows}, width=WIDTH, height=panel.height).encode(
        x=alt.X("prompt:Q", title="prompt", scale=across, axis=alt.Axis(format=",d", values=ticks(panel.domain))),
        y=alt.Y("value:Q", title=title, scale=scale, axis=alt.Axis(format=panel.form, tickCount=5)),
    )


def ticks(domain: tuple[float, float]) -> list[int]:
    """Whole prompts only: between two prompts there is nothing, and an axis would round its halves to them."""
    last = int(domain[1])
    step = next(n * 10**power for power in range(20) for n in (1, 2, 5) if last / (n * 10**power) <= 18)
    return list(range(0, last + 1, step))


def _legend(panel: _Panel, marked: bool) -> Chart:
    import altair as alt

    # Above the landmarks' two rows of words, whichever side they are on.
    landmarks = panel.marks is not None and (panel.marks.first_failure or panel.marks.pool_fill) is not None
    look = {"symbolSize": 80} if marked else {"symbolType": "stroke", "symbolSize": 500, "symbolStrokeWidth": 2.5}
    return alt.Legend(
        title=None,
        orient="none",
        legendX=0,
        legendY=-62 if landmarks else -30,
        direction="horizontal",
        columnPadding=18,
        **look,
    )


def _scale(values: Sequence[float], top: float | None, axis: str) -> tuple[Chart, str]:
    import altair as alt

    if top is not None:
        return alt.Scale(domain=[0, max([top, *values])]), axis
    low, high = min(values, default=0.0), max(values, default=1.0)
    if axis.endswith(", s") and low > 0 and high / low > 60:
        return alt.Scale(type="log"), f"{axis} (log)"
    return alt.Scale(domainMin=0, nice=True), axis


def _crosses(failed: Sequence[Point]) -> Chart:
    import altair as alt

    data = {"values": [{"prompt": step, "value": value} for step, value in failed]}
    mark = alt.Chart(data).mark_point(shape="M-1,-1L1,1M-1,1L1,-1", size=55, strokeWidth=2.5, color=FAILURE, opacity=1)
    return mark.encode(x="prompt:Q", y="value:Q")


def _landmarks(judgement: Judgement, domain: tuple[float, float]) -> list[Chart]:
    marks = []
    if judgement.pool_fill is not None:
        step = judgement.pool_fill.step
        marks += _landmark(step, f"pool full at {step:,}", -10, FULL, [5, 4], domain)
    if judgement.first_failure is not None:
        step = judgement.first_failure.step
        marks += _landmark(step, f"× first failure at {step:,}", -26, FAILURE, [1, 0], domain)
    return marks


def _landmark(step: int, text: str, y: int, colour: str, dash: list[int], domain: tuple[float, float]) -> list[Chart]:
    import altair as alt

    data = {"values": [{"prompt": step, "text": text}]}
    right = step > sum(domain) / 2
    rule = alt.Chart(data).mark_rule(color=colour, strokeWidth=2, strokeDash=dash, y=y - 4, y2="height")
    label = alt.Chart(data).mark_text(
        align="right" if right else "left", dx=-6 if right else 6, y=y, color=colour, fontSize=13, fontWeight=700
    )
    return [rule.encode(x="prompt:Q"), label.encode(x="prompt:Q", text="text:N")]


def _styled(chart: Chart) -> Chart:
    words = {"labelColor": FAINT, "titleColor": INK, "labelFontSize": 12, "titleFontSize": 12, "titleFontWeight": 500}
    return (
        chart.configure(
            aria=False, background="transparent", font="system-ui, 'Liberation Sans', sans-serif", padding=6
        )
        .configure_view(stroke=None)
        .configure_axis(gridColor=GRID, domainColor=FAINT, tickColor=FAINT, titlePadding=10, **words)
        .configure_axisX(grid=False)
        .configure_legend(labelColor=INK, labelFontSize=13)
    )


def svg(chart: Chart, name: str, title: str) -> str:
    """`chart` as an SVG element for a page, with `title` as its accessible name and ids that start with `name`."""
    out = io.StringIO()
    chart.save(out, format="svg")
    drawn = out.getvalue()
    # Two charts in one page would share the ids of their clip paths, and the second would be cut by the first.
    drawn = re.sub(r'(id="|url\(#)(?=\w)', rf"\g<1>{name}-", drawn)
    drawn = re.sub(r' (?:xmlns(?::xlink)?|role|aria-roledescription)="[^"]*"', "", drawn)
    label = title.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;")
    # A replacement string would read backslashes in the label as references, so it is a function.
    return re.sub(
        r'<svg [^>]*(viewBox="[^"]*")[^>]*>',
        lambda tag: f'<svg class="chart" role="img" aria-label="{label}" {tag[1]}>',
        drawn,
        count=1,
    )


def png(chart: Chart, scale: float = 2.0) -> bytes:
    """`chart` as a PNG on white, for places that show no SVG (a CI summary)."""
    out = io.BytesIO()
    chart.properties(background="#ffffff").save(out, format="png", scale_factor=scale)
    return out.getvalue()
