"""What a CI page shows of a gate: JUnit cases, annotations, and a summary that says which prompt and why.

A job's log is a control channel: a line that begins with two colons is a command to the runner. What a
server said is escaped into the commands that we write and never begins a line of its own.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kvstress.core.manifest import Manifest
from kvstress.core.ruling import Ruled, Ruling
from kvstress.core.verdict import Judgement, Verdict
from kvstress.report import phrases
from kvstress.report.fold import RunFold
from kvstress.report.hostile import line
from kvstress.report.junit import Suite, case, outcome
from kvstress.report.summary import escape, fenced

_SIGNS = {Ruled.MET: "✅", Ruled.NOT_MET: "❌", Ruled.CANNOT_TELL: "⚠️"}
_BARS = "▁▂▃▄▅▆▇█"
BARS_WIDE = 72


@dataclass(frozen=True, slots=True, kw_only=True)
class Gated:
    """A gate's result: `rulings` one a sentence, `heads` the judged runs, `baseline` and `compared` in words.

    `rows` are those of the comparison: metric, base, head, ratio with interval, verdict.
    """

    outcome: Ruled
    rulings: tuple[Ruling, ...]
    heads: tuple[tuple[Manifest, Judgement], ...]
    baseline: str
    compared: str | None = None
    rows: tuple[tuple[str, str, str, str, str], ...] = ()

    @property
    def failing(self) -> tuple[Manifest, Judgement] | None:
        """The run of the head that failed at the earliest step; None when none failed."""
        failed = [head for head in self.heads if head[1].verdict is Verdict.FAIL]
        return min(failed, key=lambda head: head[1].first_failure.step if head[1].first_failure else 0, default=None)


def told(gated: Gated, *, quiet: bool = False) -> Iterator[str]:
    """The result for a terminal or a log: a line a sentence, each beginning with a word of ours."""
    yield f"kvstress gate: {gated.outcome.verdict}" + (f"; {line(gated.compared, 400)}" if gated.compared else "")
    if quiet:
        return
    yield f"baseline: {line(gated.baseline, 200)}"
    for ruling in gated.rulings:
        yield f"{ruling.outcome.words:<11}  {line(ruling.sentence, 120)}  {line(ruling.said, 400)}".rstrip()
    if gated.failing is not None:
        yield f"failed: {line(gated.failing[1].why, 600)}"


def gate_suite(gated: Gated) -> Suite:
    """One case a sentence: not met is a failure, cannot tell an error, because neither is green."""
    tags = {Ruled.NOT_MET: "failure", Ruled.CANNOT_TELL: "error"}
    cases = [
        case("gate", r.sentence, outcome(tags[r.outcome], f"{r.outcome.words}: {r.said}", r.said) if r.outcome else "")
        for r in gated.rulings
    ]
    return Suite(
        name="gate",
        started=gated.heads[0][0].started if gated.heads else "",
        cases=tuple(cases),
        failures=sum(r.outcome is Ruled.NOT_MET for r in gated.rulings),
        errors=sum(r.outcome is Ruled.CANNOT_TELL for r in gated.rulings),
        properties={"baseline": gated.baseline, "compared": gated.compared or "not compared"},
    )


def annotations(gated: Gated) -> Iterator[str]:
    """Workflow commands: an error for each sentence not met and for the failing prompt, a warning for the rest."""
    for ruling in gated.rulings:
        if ruling.outcome is not Ruled.MET:
            level = "error" if ruling.outcome is Ruled.NOT_MET else "warning"
            yield command(level, f"kvstress: {ruling.outcome.words}: {ruling.sentence}", ruling.said)
    if gated.outcome is not Ruled.MET and gated.failing is not None:
        manifest, judgement = gated.failing
        yield command("error", f"kvstress: {line(manifest.workload, 60)} failed", judgement.why)


def command(level: str, title: str, message: str) -> str:
    """One workflow command, `level` error, warning or notice; whatever the texts hold, it stays one command."""
    named = _data(line(title, 200)).replace(":", "%3A").replace(",", "%2C")
    return f"::{level} title={named}::{_data(line(message, 1_000))}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def gate_markdown(gated: Gated, fold: RunFold | None, picture: str | None) -> str:
    """The summary page: verdict, sentences, failing prompt, the fill curve as `picture` (a link) and in letters."""
    head = f"## {_SIGNS[gated.outcome]} kvstress gate: {gated.outcome.verdict}"
    parts = [head, *_headlines(gated), _table(gated.rulings), *_runs(gated.heads)]
    if gated.failing is not None:
        finding = phrases.deciding(gated.failing[1])
        parts.append(fenced(finding.summary) if finding is not None else "")
    if picture is not None:
        parts.append(f"![KV pool over prompts]({picture})")
    parts += [_curve(fold) if fold is not None else "", _details(gated.rows)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _headlines(gated: Gated) -> Iterator[str]:
    embedded = any(manifest.target.embedded for manifest, _ in gated.heads)
    yield f"> {escape(phrases.EMBEDDED)}" if embedded else ""
    yield escape(line(gated.compared, 600)) if gated.compared else ""
    yield f"Baseline: {escape(line(gated.baseline, 300))}"


def _table(rulings: Sequence[Ruling]) -> str:
    rows = [
        f"| {_SIGNS[r.outcome]} {r.outcome.words} | {escape(r.sentence)} | {escape(line(r.said, 400))} |"
        for r in rulings
    ]
    return "\n".join(["| | gate | |", "|---|---|---|", *rows])


def _details(rows: Sequence[tuple[str, str, str, str, str]]) -> str:
    """All rows of the comparison, folded away: what did not change is no news, but is asked for."""
    if not rows:
        return ""
    lines = ["| " + " | ".join(escape(line(cell, 200)) for cell in row) + " |" for row in rows]
    table = "\n".join(["| | baseline | head | ratio (95 %) | |", "|---|---|---|---|---|", *lines])
    return f"<details><summary>Compared row by row</summary>\n\n{table}\n\n</details>"


def _runs(heads: Sequence[tuple[Manifest, Judgement]]) -> Iterator[str]:
    rows = []
    for manifest, judgement in heads:
        first = judgement.first_failure
        failed = phrases.failure(first) if first else phrases.censored(judgement.censored_at)
        cells = (line(manifest.run, 80), judgement.verdict.name, failed, phrases.fill(judgement.pool_fill))
        rows.append("| " + " | ".join(map(escape, cells)) + " |")
    if rows:
        yield "\n".join(["| run | verdict | first failure | pool full |", "|---|---|---|---|", *rows])


def _curve(fold: RunFold) -> str:
    """The pool's fill over prompts in eight heights of block letters: it shows wherever text does."""
    share = fill_shares(fold)
    if not share:
        return ""
    step = max(1, -(-len(share) // BARS_WIDE))
    bars = "".join(_BARS[min(7, int(8 * max(share[at : at + step])))] for at in range(0, len(share), step))
    return fenced(f"KV pool in use, prompts 0 to {len(share) - 1:,} (a full block: full)\n{bars}")


def fill_shares(fold: RunFold) -> list[float]:
    """How full the pool was after each prompt, 0–1; empty when the server does not show it."""
    if "kv_free" in fold.pool and fold.capacity:
        return [_within(1.0 - free / fold.capacity) for _, free in fold.pool["kv_free"].points()]
    return [_within(used) for _, used in fold.pool["kv_usage"].points()] if "kv_usage" in fold.pool else []


def _within(share: float) -> float:
    return min(1.0, max(0.0, share))
