"""`kvstress gate`: do these runs meet what CI requires?

Reads like a table of contents: judge the runs anew, find what they are held against, read the sentences, rule,
and write what a CI page shows. The runs may lie on disk, or be made here first.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from kvstress.core.errors import UsageError
from kvstress.core.manifest import Manifest
from kvstress.core.ruling import Ruled, Ruling, worst
from kvstress.core.verdict import Judgement, Verdict
from kvstress.gate.evidence import Intervals, Seen, Side
from kvstress.gate.interval import pace_interval, ratio_interval
from kvstress.gate.judging import rule
from kvstress.gate.sentence import Sentence, of_workload, parse
from kvstress.harness import baseline
from kvstress.harness.baseline import NO_BASE, Base, Labels
from kvstress.harness.compare import judged
from kvstress.harness.seen import look
from kvstress.report.charts import png, pool_chart
from kvstress.report.fold import RunFold, folded
from kvstress.report.gate import Gated, gate_markdown, gate_suite
from kvstress.report.junit import document, run_suite
from kvstress.stats.compare import FOUR
from kvstress.stats.facts import Change, Comparison, Row
from kvstress.store import disk
from kvstress.store.baseline import slug
from kvstress.store.rundir import read_events

SCHEMA_VERSION = 1
PICTURE = "fill.png"
# What is required where neither the command line nor the workload says anything.
WITH_BASELINE = ("first_failure >= baseline", "findings.new == 0")
WITHOUT = ("failures == 0",)
_BY_CHANGE = {
    Change.REGRESSED: Ruled.NOT_MET,
    Change.CANNOT_TELL: Ruled.CANNOT_TELL,
    Change.UNCHANGED: Ruled.MET,
    Change.IMPROVED: Ruled.MET,
}
# REGRESSED and IMPROVED say themselves what they are; these two would read like a second verdict.
_UNSETTLED = {Change.UNCHANGED: "as the baseline", Change.CANNOT_TELL: "no change is certain"}
_INTERVALS = Intervals(quantile=ratio_interval, pace=pace_interval)


@dataclass(frozen=True, slots=True, kw_only=True)
class GateOptions:
    """`baselines` are runs, files of a history or histories; `begin` lets a history that has nothing yet begin."""

    baselines: tuple[Path, ...] = ()
    sentences: tuple[str, ...] = ()
    labels: Labels = field(default_factory=Labels)
    begin: bool = False
    reference: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """One run under judgement."""

    path: Path
    manifest: Manifest
    judgement: Judgement
    seen: Seen


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdicts:
    """What a gate came to, with the runs it is about."""

    gated: Gated
    heads: tuple[Head, ...]
    base: Base


def gate(options: GateOptions, runs: Sequence[Path]) -> Verdicts:
    """Judge `runs`. Raises UsageError for a call that cannot be answered, CannotJudgeError for a damaged run."""
    heads = tuple(Head(path=path, manifest=m, judgement=j, seen=s) for path in runs for m, j, s in [look(path)])
    _check_heads(heads, options)
    base = _base(heads, options)
    sentences = _sentences(heads, options, base)
    _check_plans(heads, base)
    compared = judged(base.side, tuple(head.seen for head in heads)) if base.side else None
    rulings = (_judged(heads), *(_ruled(sentence, heads, base, compared) for sentence in sentences))
    gated = Gated(
        outcome=worst(rulings),
        rulings=rulings,
        heads=tuple((head.manifest, head.judgement) for head in heads),
        baseline=base.said,
        compared=_compared(compared) if compared else None,
        rows=tuple(map(_row_words, compared.rows)) if compared else (),
    )
    return Verdicts(gated=gated, heads=heads, base=base)


def check(options: GateOptions) -> None:
    """Find what is wrong with the call itself, so that no server is started for it. Raises UsageError."""
    for text in options.sentences:
        sentence = parse(text)
        if sentence.needs_baseline and not options.baselines:
            raise UsageError(f"gate {text!r} needs a baseline: name one with --baseline")
    missing = next((path for path in options.baselines if not path.exists()), None)
    if missing is not None and not options.begin:
        raise UsageError(f"--baseline {missing}: no such file or directory")


def _check_heads(heads: Sequence[Head], options: GateOptions) -> None:
    if not heads:
        raise UsageError("no run to judge: name run directories, or --launch a server to make one")
    if any(head.manifest.target.embedded for head in heads) and not options.reference:
        raise UsageError(
            "this is a run of the embedded reference server, which says nothing about a real engine: "
            "gate it with --allow-reference"
        )
    workloads = sorted({head.manifest.workload for head in heads})
    if len(workloads) > 1:
        raise UsageError(f"these are runs of different workloads ({', '.join(workloads)}): gate one at a time")


def _base(heads: Sequence[Head], options: GateOptions) -> Base:
    if not options.baselines:
        return NO_BASE
    manifest = heads[0].manifest
    key = baseline.key_of(manifest, options.labels)
    given = [path for path in options.baselines if path.exists()] if options.begin else list(options.baselines)
    base = baseline.find(given, key, options.labels.commit or manifest.commit)
    if not base.side and not options.begin:
        raise UsageError(
            f"no accepted run of workload {key.workload}, limit {key.limit}, hardware {key.hardware} in "
            f"{options.baselines[0]}: add one with `kvstress baseline add`, or --begin"
        )
    if base.embedded and not options.reference:
        raise UsageError("the baseline is of the embedded reference server: gate against it with --allow-reference")
    return base


def _sentences(heads: Sequence[Head], options: GateOptions, base: Base) -> tuple[Sentence, ...]:
    """Of the command line, else of the workload, else what goes without saying."""
    given = tuple(map(parse, options.sentences)) or of_workload(heads[0].manifest.parameters.get("gate") or {})
    chosen = given or tuple(map(parse, WITH_BASELINE if base.side else WITHOUT))
    wanting = next((sentence for sentence in chosen if sentence.needs_baseline), None)
    if wanting is None or base.side:
        return chosen
    if not options.begin:
        raise UsageError(f"gate {wanting.text!r} needs a baseline: name one with --baseline")
    absolute = tuple(sentence for sentence in chosen if not sentence.needs_baseline)
    return absolute or tuple(map(parse, WITHOUT))


def _judged(heads: Sequence[Head]) -> Ruling:
    """No run may be one that was not judged: it met nothing, whatever its numbers are."""
    unjudged = [head for head in heads if head.judgement.verdict in (Verdict.INVALID, Verdict.INCONCLUSIVE)]
    outcome = Ruled.CANNOT_TELL if unjudged else Ruled.MET
    said = "; ".join(f"{h.manifest.run} is {h.judgement.verdict.name}: {h.judgement.why}" for h in unjudged[:3])
    runs = "1 run" if len(heads) == 1 else f"{len(heads)} runs"
    return Ruling(sentence="every run was judged", outcome=outcome, said=said or runs)


def _check_plans(heads: Sequence[Head], base: Base) -> None:
    """Raises UsageError where a run and the baseline were not sent the same: no number of theirs compares."""
    plans = {seen.plan for seen in base.side}
    stranger = next((head for head in heads if plans and head.seen.plan not in plans), None)
    if stranger is not None:
        raise UsageError(
            f"{stranger.path} was sent other traffic than the baseline ({base.said}): workload settings, seed or data "
            f"differ (plan {stranger.seen.plan[:12]}, baseline {', '.join(sorted(plan[:12] for plan in plans))})"
        )


def _compared(compared: Comparison) -> str:
    """The comparison in words that do not contradict the verdict beside which they stand."""
    return f"{_UNSETTLED.get(compared.verdict, compared.verdict.value)}: {compared.said}"


def _ruled(sentence: Sentence, heads: Sequence[Head], base: Base, compared: Comparison | None) -> Ruling:
    """One sentence; from four runs a side its survival, and no single run, decides that of the first failure."""
    side: Side = tuple(head.seen for head in heads)
    if compared is not None and sentence.no_earlier and min(len(side), len(base.side)) >= FOUR:
        primary = compared.rows[0]
        return Ruling(
            sentence=sentence.text, outcome=_BY_CHANGE[primary.verdict], said=f"{primary.metric}: {primary.said}"
        )
    return rule(sentence, base.side, side, _INTERVALS)


def _row_words(row: Row) -> tuple[str, str, str, str, str]:
    """A row of the comparison as a page shows it."""
    ratio = "" if row.ratio is None else f"{row.ratio:.3f}"
    span = "" if row.interval is None else f" ({row.interval[0]:.3f} to {row.interval[1]:.3f})"
    return row.metric, row.base, row.head, ratio + span, row.verdict.value


def write(found: Verdicts, folder: Path) -> dict[str, Any]:
    """Write gate.json, junit.xml, summary.md and the fill curve into `folder`; what gate.json holds."""
    with disk.writing(folder, "create"):
        folder.mkdir(parents=True, exist_ok=True)
    fold = _fold(found)
    chart = None if fold is None else pool_chart(fold)
    content = json_of(found)
    pages = {
        "gate.json": json.dumps(content, ensure_ascii=False, indent=2) + "\n",
        "junit.xml": _junit(found),
        "summary.md": gate_markdown(found.gated, fold, None if chart is None else PICTURE),
    }
    for name, text in pages.items():
        disk.replace(folder / name, text.encode("utf-8", "replace"))
    if chart is not None:
        disk.replace(folder / PICTURE, png(chart))
    return content


def job_summary(found: Verdicts) -> str:
    """The summary for a page that shows no file beside it: the curve is in letters only."""
    return gate_markdown(found.gated, _fold(found), None)


def job_outputs(found: Verdicts) -> dict[str, str]:
    """The outputs of a CI step; none of them holds a word of the server's."""
    failed = [j.first_failure.step for _, j in found.gated.heads if j.first_failure is not None]
    return {
        "verdict": found.gated.outcome.verdict,
        "first-failure": str(min(failed)) if failed else "",
        "baseline-commit": slug(found.base.commit) if found.base.commit else "",
    }


def _fold(found: Verdicts) -> RunFold | None:
    """The run that the curve is of: the one that failed first, else the first."""
    if not found.heads:
        return None
    failing = found.gated.failing
    head = next((head for head in found.heads if failing and head.manifest is failing[0]), found.heads[0])
    return folded(head.judgement, read_events(head.path))


def _junit(found: Verdicts) -> str:
    known = found.gated.outcome is Ruled.MET
    named: Callable[[Head], str] = lambda head: f"{head.manifest.workload} {head.manifest.run}"  # noqa: E731
    suites = [run_suite(named(h), h.manifest, h.judgement, read_events(h.path), known=known) for h in found.heads]
    return document([gate_suite(found.gated), *suites])


def json_of(found: Verdicts) -> dict[str, Any]:
    """gate.json, which is also what `--json` prints."""
    gated = found.gated
    return {
        "schema_version": SCHEMA_VERSION,
        "verdict": gated.outcome.verdict,
        "exit_code": gated.outcome.exit_code,
        "baseline": gated.baseline,
        "compared": gated.compared,
        "rows": [dict(zip(("metric", "base", "head", "ratio", "verdict"), row, strict=True)) for row in gated.rows],
        "gates": [{**asdict(ruling), "outcome": ruling.outcome.words} for ruling in gated.rulings],
        "runs": [_run(head) for head in found.heads],
    }


def _run(head: Head) -> dict[str, Any]:
    first = head.judgement.first_failure
    return {
        "run": str(head.path),
        "verdict": head.judgement.verdict.name,
        "first_failure": None if first is None else first.step,
        "signature": None if first is None else first.signature,
        "censored_at": head.judgement.censored_at,
        "commit": head.manifest.commit,
    }
