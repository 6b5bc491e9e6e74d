"""ISSUE.md: the report that an engineer wants in his tracker, ready to paste.

Steps first, then what was seen and where, then what was looked at and found in order: a list of what it is not saves
the reader the days that the first such report cost.
"""

from collections.abc import Sequence

from kvstress.core.repro import Reproducer
from kvstress.core.sample import Sample
from kvstress.report.hostile import line, tame

_CANONICAL = (
    "kv_capacity", "kv_free", "kv_cached", "kv_usage", "snapshots_free", "running", "waiting", "preemptions",
    "evictions", "requests_failed",
)  # fmt: skip
_ROWS = 12
Row = tuple[str, int | None, str]


def markdown(repro: Reproducer, failures: Sequence[Row], sample: Sample | None) -> str:
    """The report of `repro`; `failures` are (probe, place of the failing prompt, summary), `sample` the last scrape."""
    failure, facts = repro.failure, repro.facts
    parts = [
        f"# {_cell(failure.summary, 100)}",
        f"{repro.after} are enough ({repro.before} when it was found); failed in {repro.failed} of {repro.probes} "
        f"tries on a fresh server.{_first(repro)}",
        _fence(failure.words or failure.summary),
        "## Steps",
        _steps(repro),
        "## Environment",
        "\n".join(f"- {name}: {_cell(str(value))}" for name, value in _environment(repro) if value),
        "## First failures",
        _table(("probe", "prompt", "what"), [(run, at, why) for run, at, why in failures[:_ROWS]]),
        "## Metrics at the failure",
        _metrics(sample),
        "## Looked at, and nothing found before it",
        ", ".join(name for name in facts.oracles if name != failure.oracle) + ".",
        f"Found by kvstress {facts.kvstress}, workload {_cell(facts.workload)}, which hunts {_cell(facts.hunts)}.",
    ]
    return "\n\n".join(parts) + "\n"


def _first(repro: Reproducer) -> str:
    """One request alone needs no pool, no cache and no neighbour, which the reader should know at once."""
    return " It fails at the first request that the server gets." if repro.after.requests == 1 else ""


def _steps(repro: Reproducer) -> str:
    facts = repro.facts
    start = f"1. Start the server: `{line(facts.launched, 300)}`" if facts.launched else "1. Start the server afresh."
    if facts.knob and facts.value:
        start += f" with `{{{facts.knob}}}` = `{facts.value}`"
    sends = [
        f"   - `{line(request.id, 60)}`: POST {line(request.endpoint, 60)}, max_tokens {request.body.get('max_tokens')}"
        for request in repro.case.requests[:_ROWS]
    ]
    private = f"\n\nThe texts {', '.join(repro.withheld)} are private and left out." if repro.withheld else ""
    return "\n".join([start, "2. `python3 repro.py http://127.0.0.1:PORT`, which sends", *sends]) + private


def _environment(repro: Reproducer) -> list[tuple[str, object]]:
    facts = repro.facts
    return [
        ("server", "the reference server embedded in kvstress, no real engine" if facts.embedded else facts.software),
        ("commit", facts.commit),
        ("model", facts.model),
        ("context", facts.context_limit),
        ("KV pool, tokens", None if facts.capacity is None else f"{facts.capacity:,.0f}"),
        ("hardware", facts.hardware),
        ("system", facts.host.get("system")),
    ]


def _metrics(sample: Sample | None) -> str:
    if sample is None:
        return "The server exports none."
    rows = [(name, getattr(sample, name)) for name in _CANONICAL if getattr(sample, name) is not None]
    return _table(("metric", "value"), [(name, f"{value:,.10g}") for name, value in rows])


def _table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    lines += ["| " + " | ".join("" if cell is None else _cell(str(cell)) for cell in row) + " |" for row in rows]
    return "\n".join(lines)


def _cell(text: str, length: int = 200) -> str:
    """Server text in a line of Markdown: no markup of its own, no table of its own."""
    return line(text, length).replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;").replace("`", "\\`")


def _fence(text: str) -> str:
    shown = tame(text, 2000)
    fence = "```"
    while fence in shown:
        fence += "`"
    return f"{fence}text\n{shown}\n{fence}"
