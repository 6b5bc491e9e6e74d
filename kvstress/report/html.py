"""One file that says what the run showed: verdict first, evidence after it, nothing to install or fetch.

It is opened from a CI artifact, a mail or a ticket, perhaps years later and by someone who
doubts it. So it carries its charts and its style, needs no script, and quotes the server
verbatim; what it leaves off for length it says it left off.
"""

from collections.abc import Iterable
from typing import Any

from kvstress.core.events import Event
from kvstress.core.manifest import Manifest
from kvstress.core.rates import Rates, measured, watching
from kvstress.core.verdict import Judgement
from kvstress.report import phrases, rates, sections
from kvstress.report.fold import RunFold, folded
from kvstress.report.metrics_table import table
from kvstress.report.templates import template


def page(manifest: Manifest, judgement: Judgement, events: Iterable[Event]) -> str:
    """The report of one run as a self-contained HTML page; `events` is consumed once and not kept."""
    measuring = measured(manifest)
    fold = folded(judgement, watching(measuring, events))
    return template("page.html.j2").render(
        manifest=manifest,
        judgement=judgement,
        fold=fold,
        verdict=judgement.verdict.name,
        exit_meaning=phrases.exit_meaning(judgement),
        target=phrases.target(manifest),
        facts=sections.facts(judgement, fold),
        banners=sections.banners(manifest, judgement, fold),
        failing=sections.failing(judgement, fold),
        rates=_rates(measuring),
        charts=_charts(fold),
        metrics=_metrics(fold),
        coverage=sections.coverage(judgement),
        findings=sections.findings(judgement),
        outcomes=sections.outcomes(fold),
        steps=sections.steps(fold, manifest.phases),
        asides=sections.asides(fold),
        server=sections.server(fold),
        reproduce=sections.reproduce(manifest),
        recorded=sections.recorded(manifest, fold),
    )


def _rates(measuring: Rates | None) -> dict[str, Any] | None:
    if measuring is None:
        return None
    return {"heads": rates.HEADS, "rows": rates.rows(measuring.table()), "note": rates.note()}


def _metrics(fold: RunFold) -> dict[str, Any] | None:
    at_failure = fold.failing is not None
    shown = table(fold.before, fold.at) if at_failure else table(fold.first_sample, fold.last_sample)
    if shown is None:
        return None
    title = "Metrics at the failure" if at_failure else "Metrics over the run"
    heads = ("before it was sent", "after it failed") if at_failure else ("at the start", "at the end")
    return {"title": title, "heads": heads, "table": shown}


def _charts(fold: RunFold) -> list[dict[str, Any]]:
    # Altair and pandas cost a second to import; a terminal that only wants a sentence never pays for them.
    from kvstress.report import charts

    drawn = (
        ("pool", "KV pool over prompts", charts.pool_chart(fold), sections.pool_note(fold)),
        ("e2e", "Latency over prompts", charts.latency_chart(fold, "e2e"), sections.latency_note(fold, fold.e2e)),
        (
            "ttft",
            "Time to first token over prompts",
            charts.latency_chart(fold, "ttft"),
            sections.latency_note(fold, fold.ttft),
        ),
    )
    return [
        {
            "id": name,
            "title": title,
            "note": note,
            "svg": None if chart is None else charts.svg(chart, name, f"{title}. {note}"),
        }
        for name, title, chart, note in drawn
        if chart is not None or name == "pool"
    ]
