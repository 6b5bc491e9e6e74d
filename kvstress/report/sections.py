"""What stands in each section of the page, as words: the template only lays it out."""

import json
from collections.abc import Mapping
from typing import Any

from kvstress.core.exchange import Exchange
from kvstress.core.latency import e2e, ttft
from kvstress.core.manifest import Manifest
from kvstress.core.sample import Sample
from kvstress.core.units import show_duration
from kvstress.core.verdict import Judgement
from kvstress.report import phrases
from kvstress.report.fold import RunFold
from kvstress.report.hostile import line, tame
from kvstress.report.phrases import NOT_EXPORTED, NOT_REPORTED, count, percent, seconds
from kvstress.report.rows import Send, StepRow
from kvstress.report.thin import Thinned

Pairs = list[tuple[str, str]]

FINDING_ROWS = 100
STEPS_SHOWN = 40

COVERAGE = {
    "hit": "a cached prefix was reused",
    "full": "the KV pool filled",
    "evicted": "something was evicted from the pool",
    "tier": "a prefix came back from a slower tier",
    "aborted": "a request was aborted in mid-flight",
    "speculating": "speculative decoding was at work",
}


def facts(judgement: Judgement, fold: RunFold) -> list[tuple[str, str, str]]:
    """The headline figures: name, value, how it is known."""
    first, full = judgement.first_failure, judgement.pool_fill
    found = (
        ("First failure", phrases.failure(first), _after(first.step, full.step if full else None)) if first else None
    )
    none = (
        "First failure",
        "none seen" if judgement.censored_at else "not known",
        phrases.censored(judgement.censored_at),
    )
    ended = fold.ended is not None
    return [
        found or none,
        ("Pool full", phrases.fill(full), phrases.fill_how(full)),
        (
            "Prompts done",
            f"{judgement.steps:,}",
            line(judgement.stopped or "", 80) if ended else "the run was killed: no end",
        ),
        ("Run time", show_duration(fold.last_at), f"{show_duration(fold.step_seconds)} of it in prompts"),
    ]


def _after(first: int, full: int | None) -> str:
    if full is None:
        return "counted from 0"
    away = first - full
    prompts = "prompt" if abs(away) == 1 else "prompts"
    return (
        "the very prompt that filled the pool"
        if away == 0
        else f"{abs(away):,} {prompts} {'after' if away > 0 else 'before'} the pool filled"
    )


def banners(manifest: Manifest, judgement: Judgement, fold: RunFold) -> list[str]:
    """What a reader must know before he believes anything below."""
    said = []
    if manifest.target.embedded:
        said.append(phrases.EMBEDDED)
    if manifest.stand_in:
        said.append(f"Stand-in prompts: {line(manifest.content, 300)}.")
    if fold.ended is None:
        said.append("The run has no end on record: it was killed. What follows is what was on disk.")
    if manifest.resumed_at:
        said.append(f"Resumed at prompt {', '.join(str(step) for step in manifest.resumed_at[:20])}.")
    if manifest.restarts_of:
        said.append(f"Started again from prompt 0 in place of {line(manifest.restarts_of)}, whose server was gone.")
    if manifest.sizing is not None and manifest.sizing.how == "assumed":
        said.append("Prompt sizes are a guess: the server counted no tokens, so 16k may not be 16,000 of its own.")
    said += _inexact(manifest)
    return said


def _inexact(manifest: Manifest) -> list[str]:
    """Lengths that were to be exact to the token and are not."""
    source, sized = manifest.parameters.get("source"), manifest.sizing
    if sized is None or not isinstance(source, Mapping) or source.get("kind") != "residue":
        return []
    if not sized.off:
        return ["Prompt lengths are not exact: the server did not count them, so residues are off by unknown amounts."]
    wrong = [off for off in sized.off if off]
    by = f"{min(wrong):+d} to {max(wrong):+d} tokens" if wrong else ""
    return [f"{len(wrong)} of {len(sized.off)} prompt lengths are off by {by}."] if wrong else []


def failing(judgement: Judgement, fold: RunFold) -> dict[str, Any] | None:
    """The failing prompt: what was sent, what came back, in whose words; None when nothing failed at a request."""
    if judgement.first_failure is None or fold.failing is None:
        return None
    send, answer = fold.failing, fold.failing.exchange
    label = fold.failing_row.label if fold.failing_row else ""
    return {
        "title": f"The failing prompt: {phrases.failure(judgement.first_failure)}"
        + (f" ({line(label, 40)})" if label else ""),
        "words": _words(answer),
        "request": _request(send),
        "response": _response(answer),
        "text": tame(answer.text) if answer and answer.text else None,
        "raw": _raw(answer),
        "sends": [_send(s) for s in fold.failing_row.sends[:40]] if fold.failing_row else [],
        "in_flight": [line(r, 80) for r in judgement.first_failure.in_flight[:20]],
    }


def _words(answer: Exchange | None) -> str | None:
    if answer is None:
        return None
    words = answer.server_words if answer.server_words is not None else answer.error_bytes
    return tame(words) if words else None


def _raw(answer: Exchange | None) -> str | None:
    if answer is None or not answer.error_bytes or answer.error_bytes == answer.server_words:
        return None
    return tame(answer.error_bytes)


def _request(send: Send) -> Pairs:
    sent = send.sent
    session = f"{line(sent.session, 60)}, turn {sent.turn}" if sent.session is not None else None
    pairs = [
        ("endpoint", f"POST {line(sent.endpoint)}"),
        ("prompt", line(sent.recipe, 300)),
        ("planned prompt tokens", count(sent.tokens, "not measured")),
        ("max_tokens", count(sent.max_tokens, "not set")),
        ("streamed", "yes" if sent.stream else "no"),
        ("body", f"{sent.body_bytes:,} bytes, sha256 {line(sent.body_sha256, 64)}"),
        ("session", session),
        ("sent at", f"{sent.at:.3f} s"),
        ("request id", line(sent.request, 80)),
    ]
    return [(name, value) for name, value in pairs if value is not None]


def _response(answer: Exchange | None) -> Pairs:
    if answer is None:
        return [("result", "no answer on record: the run ended first")]
    usage = answer.usage
    finish = answer.choices[0].finish_reason if answer.choices else None
    pairs = [
        ("result", f"{answer.outcome.value} ({answer.kind.value})"),
        ("HTTP status", str(answer.status) if answer.status is not None else "none came"),
        ("ended after", seconds(e2e(answer))),
        ("first token after", seconds(ttft(answer), "no streamed token")),
        ("prompt tokens", count(usage.prompt_tokens if usage else None, NOT_REPORTED)),
        ("of them cached", count(usage.cached_tokens if usage else None, NOT_REPORTED)),
        ("completion tokens", count(usage.completion_tokens if usage else None, NOT_REPORTED)),
        ("finish reason", line(finish, 60) if finish else NOT_REPORTED),
        ("protocol faults", "; ".join(line(v, 120) for v in answer.violations) or "none"),
    ]
    if answer.retry_after is not None:
        pairs.append(("Retry-After", line(answer.retry_after, 60)))
    return pairs


def _send(send: Send) -> dict[str, str | bool]:
    answer = send.exchange
    usage = answer.usage if answer else None
    return {
        "name": line(send.sent.phase, 40),
        "planned": count(send.sent.tokens, "not measured"),
        "max_tokens": count(send.sent.max_tokens, "not set"),
        "result": phrases.result(answer) if answer else "no answer: the run ended",
        "ok": answer is not None and answer.outcome == "completed",
        "took": seconds(e2e(answer) if answer else None),
        "ttft": seconds(ttft(answer) if answer else None),
        "prompt": count(usage.prompt_tokens if usage else None, NOT_REPORTED),
        "cached": count(usage.cached_tokens if usage else None, NOT_REPORTED),
        "words": line(_words(answer) or "", 120) if answer else "",
    }


def coverage(judgement: Judgement) -> list[dict[str, str]]:
    """Each declared coverage key: whether it was reached and what it means."""
    words = {True: "reached", False: "not reached", None: "not observable on this server"}
    return [
        {"key": line(key, 40), "state": words[reached], "means": COVERAGE.get(key, "")}
        for key, reached in judgement.coverage.items()
    ]


def findings(judgement: Judgement) -> dict[str, Any]:
    """The gravest findings first, capped."""
    # What concerns the run as a whole stands after the prompts it happened in.
    ordered = sorted(judgement.findings, key=lambda f: (-f.verdict, f.step is None, f.step or 0))
    rows = [
        {
            "oracle": line(f.oracle, 40),
            "verdict": f.verdict.name,
            "where": "run" if f.step is None else f"prompt {f.step:,}" + (f", {line(f.phase, 40)}" if f.phase else ""),
            "summary": line(f.summary, 400),
            "measured": line(f.measured, 160) if f.measured else "",
            "limit": line(f.limit, 160) if f.limit else "",
            "signature": line(f.signature, 240),
        }
        for f in ordered[:FINDING_ROWS]
    ]
    return {"rows": rows, "left_off": len(ordered) - len(rows)}


def outcomes(fold: RunFold) -> list[tuple[str, str, str, str]]:
    """Requests by why they were sent, outcome and kind, with their number."""
    rows = [(o, outcome, kind, f"{n:,}") for (o, outcome, kind), n in sorted(fold.kinds.items())]
    return rows + [(o, "lost", "no answer before the run ended", f"{n:,}") for o, n in sorted(fold.unanswered.items())]


def steps(fold: RunFold, phases: tuple[str, ...]) -> dict[str, Any]:
    """The steps table; rows that stand for left-off steps carry only `gap`, their number."""
    rows: list[dict[str, Any]] = []
    expected = 0
    for row in fold.rows:
        if row.step > expected:
            rows.append({"gap": f"{row.step - expected:,}"})
        expected = row.step + 1
        rows.append(_step(fold, row))
    names = [line(phase, 40) for phase in phases[:8]]
    return {"phases": names, "rows": rows, "total": fold.rows.total, "collapsed": fold.rows.total > STEPS_SHOWN}


def _step(fold: RunFold, row: StepRow) -> dict[str, Any]:
    sends = {line(s.sent.phase, 40): s for s in row.sends}
    first, full = fold.judgement.first_failure, fold.judgement.pool_fill
    return {
        "gap": None,
        "step": f"{row.step:,}",
        "label": line(row.label, 40),
        "cells": {phase: _cell(s) for phase, s in sends.items()},
        "seconds": seconds(row.seconds, "never ended"),
        "pool": _pool(row.sample),
        "free": count(row.sample.kv_free if row.sample else None),
        "cached": count(row.sample.kv_cached if row.sample else None),
        "fails": first is not None and first.step == row.step,
        "fills": full is not None and full.step == row.step,
    }


def _cell(send: Send) -> dict[str, Any]:
    shown = _send(send)
    return {"ok": shown["ok"], "text": f"{shown['result']} · {shown['took']}"}


def _pool(sample: Sample | None) -> str:
    return NOT_EXPORTED if sample is None or sample.kv_usage is None else percent(sample.kv_usage)


def asides(fold: RunFold) -> dict[str, Any]:
    """Requests that judged the server without counting as prompts."""
    rows = [_send(s) | {"name": line(s.sent.request, 60)} for s in fold.asides.items]
    return {"rows": rows, "left_off": fold.asides.left_off}


def server(fold: RunFold) -> dict[str, Any]:
    """What happened to the server's process, and the last lines of its log that were matched."""
    rows = [
        (
            f"{e.at:.1f} s",
            e.change.value + (f" (exit code {e.code})" if e.code is not None else ""),
            line(e.detail, 300),
        )
        for e in fold.server.items
    ]
    return {"rows": rows, "left_off": fold.server.left_off, "log": [line(e.detail, 400) for e in fold.log_tail]}


def reproduce(manifest: Manifest) -> Pairs:
    """What another person needs to see the same."""
    versions = ", ".join(f"{line(k, 40)} {line(v, 60)}" for k, v in manifest.versions.items())
    host = ", ".join(f"{line(k, 40)} {line(v, 80)}" for k, v in manifest.host.items())
    sizing = manifest.sizing
    pairs = [
        ("seed", str(manifest.seed)),
        ("plan digest", line(manifest.plan_digest, 80)),
        ("parameters", line(json.dumps(dict(manifest.parameters), default=str, ensure_ascii=False), 800)),
        (
            "sizing",
            f"{sizing.overhead:.1f} + {sizing.per_unit:.3f} tokens a unit, {line(sizing.how, 30)}"
            if sizing
            else "none",
        ),
        ("server", phrases.target(manifest)),
        ("launched by", line(manifest.target.launched or "not by kvstress", 400)),
        ("commit", line(manifest.commit or "not given", 80)),
        ("hardware", line(manifest.hardware or "not given", 120)),
        ("versions", versions or "not recorded"),
        ("client host", host or "not recorded"),
        ("started", line(manifest.started, 60)),
        ("run", line(manifest.run, 120)),
    ]
    return pairs + [
        ("data", ", ".join(f"{line(k, 40)} {line(v, 160)}" for k, v in s.items())) for s in manifest.sources[:20]
    ]


def recorded(manifest: Manifest, fold: RunFold) -> Pairs:
    """What is on disk beside this page, and how it was taken."""
    seen = ", ".join(f"{number:,} {name}" for name, number in sorted(fold.events.items()))
    streamed = "streamed" if manifest.stream else "not streamed"
    every = "off" if not manifest.scrape_interval else f"every {manifest.scrape_interval:g} s and after each prompt"
    return [
        ("manifest.json, events.jsonl", f"the whole run: {seen or 'no event'}; all other files are views of these two"),
        ("prompts.csv", "one row a prompt"),
        ("requests.csv, metrics.csv", "one row a request, one a scrape"),
        ("findings.jsonl, verdict.json", "what the oracles found"),
        ("prompt text", f"not stored: recipe, seed and sizing rebuild it ({line(manifest.content, 200)})"),
        (
            "timeout",
            f"{manifest.timeout:g} s a request; answers {streamed}; {manifest.lanes} lane(s)",
        ),
        ("metrics", f"{line(manifest.target.dialect or 'no known dialect', 40)}; scraped {every}"),
        ("oracles", ", ".join(line(o, 30) for o in manifest.oracles[:40])),
    ]


def _thinned(width: int, both: str) -> str:
    return f" Thinned: of each {width:,} prompts the lowest and the highest {both} are drawn." if width > 1 else ""


def pool_note(fold: RunFold) -> str:
    """What the pool chart does not show."""
    if not fold.pool:
        return "The server exported no KV pool metrics with any prompt, so there is nothing to draw."
    names = {"kv_free": "free tokens", "kv_cached": "cached tokens", "kv_usage": "pool usage"}
    absent = [words for name, words in names.items() if name not in fold.pool]
    capacity = f"Capacity {count(fold.capacity)} tokens." if fold.capacity is not None else "Capacity not exported."
    missing = f" Not exported: {', '.join(absent)}." if absent else ""
    return f"Read after each prompt. {capacity}{missing}" + _thinned(max(t.width for t in fold.pool.values()), "value")


def latency_note(fold: RunFold, series: dict[tuple[str, str], Thinned]) -> str:
    """What the latency charts show and leave off."""
    thinned = _thinned(max((t.width for t in series.values()), default=1), "time of each series")
    failed = ""
    if series is fold.e2e and fold.failed_at.total:
        cut = (
            f", the first {len(fold.failed_at.items):,} of {fold.failed_at.total:,}" if fold.failed_at.left_off else ""
        )
        failed = f" × marks requests that did not complete{cut}."
    until = "the end of the answer" if series is fold.e2e else "the first content chunk"
    return f"From sent to {until}, seconds.{failed}{thinned}"
