"""The pictures show what was exported, mark the two moments, and take no colour that the page cannot swap."""

import re
from importlib.resources import files

from kvstress.core.verdict import FirstFailure
from kvstress.report import charts
from kvstress.report.fold import folded
from tests.report import runs


def drawn(which: str = "pool", **options: object) -> str:
    fold = folded(runs.failed(), runs.events(17, fail_at=16, stream=True))
    chart = charts.pool_chart(fold) if which == "pool" else charts.latency_chart(fold, which)
    return charts.svg(chart, which, 'a "title" \\1 <b>')


def test_the_fill_and_the_first_failure_are_marked_in_every_chart() -> None:
    for which in ("pool", "e2e", "ttft"):
        assert "pool full at 14" in drawn(which)
        assert "first failure at 16" in drawn(which)


def test_the_title_is_its_accessible_name_whatever_it_says() -> None:
    assert re.match(r'<svg class="chart" role="img" aria-label="a &quot;title&quot; \\1 &lt;b>" viewBox="', drawn())


def test_each_colour_drawn_is_one_that_the_style_sheet_swaps() -> None:
    style = files("kvstress.report").joinpath("page.css").read_text(encoding="utf-8")
    for which in ("pool", "e2e", "ttft"):
        for kind, colour in re.findall(r'(fill|stroke)="(#[0-9a-f]+)"', drawn(which)):
            assert f'.chart [{kind}="{colour}"]' in style


def test_series_differ_by_dash_and_shape_as_well() -> None:
    assert len(set(re.findall(r'stroke-dasharray="([^"]+)"', drawn("e2e")))) >= 4


def test_nothing_exported_is_no_chart() -> None:
    fold = folded(runs.failed(), runs.events(17, fail_at=16, metrics=False))
    assert charts.pool_chart(fold) is None
    assert charts.latency_chart(fold, "ttft") is None


def test_a_server_that_exports_usage_alone_still_has_a_marked_chart() -> None:
    fold = folded(runs.failed(), runs.events(17, fail_at=16))
    del fold.pool["kv_free"], fold.pool["kv_cached"]
    shown = charts.svg(charts.pool_chart(fold), "pool", "t")
    assert "pool full at 14" in shown
    assert "tokens in the pool" not in shown


def test_one_step_is_enough_for_a_picture() -> None:
    first = FirstFailure(step=0, phase="prime", signature="s", exposure=0)
    fold = folded(runs.failed(0, first_failure=first, pool_fill=None), runs.events(1))
    assert charts.svg(charts.pool_chart(fold), "pool", "t").count("first failure at 0") == 1


def test_a_ramp_whose_every_step_has_its_own_label_is_one_series_a_phase() -> None:
    fold = folded(runs.passed(40), runs.ramp(40))
    shown = charts.svg(charts.latency_chart(fold, "e2e"), "e2e", "t")
    assert ">fill<" in shown
    assert "39k" not in shown


def test_the_png_variant_is_a_png() -> None:
    fold = folded(runs.failed(), runs.events(17, fail_at=16))
    assert charts.png(charts.pool_chart(fold), scale=1.0).startswith(b"\x89PNG\r\n")


def test_the_axis_names_whole_prompts_once_each() -> None:
    for steps in (1, 2, 17, 143, 100_000):
        ticks = charts.ticks((-0.5, max(1, steps - 1) + 0.5))
        assert ticks[0] == 0
        assert len(ticks) == len(set(ticks)) <= 19
