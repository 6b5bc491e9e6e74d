"""Runs made up for the report's tests: the events and the judgement that the other stages would hand over."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from kvstress.core.events import Event, RequestSent, RunEnded, StepEnded, StepStarted, Stop
from kvstress.core.exchange import Choice, Exchange, Usage
from kvstress.core.manifest import Manifest, Target
from kvstress.core.outcome import Kind
from kvstress.core.plan import Origin
from kvstress.core.sample import Sample
from kvstress.core.sizing import Sizing
from kvstress.core.verdict import Finding, FirstFailure, Judgement, PoolFill, Verdict

CAPACITY = 481_280
WORDS = "prepared model reported device error 6"


def manifest(**changes: Any) -> Manifest:
    """A speedbench manifest against a Flare server, with `changes`."""
    base = Manifest(
        run="20260301-101500-speedbench",
        started="2026-03-01T10:15:00+00:00",
        workload="speedbench",
        hunts="a cached prefix that decodes wrongly once the KV pool has filled",
        plan_digest="7d3c1f0ab2c94e55a1b7c8e2f6d40913aa55ee0f1122334455667788990011aa",
        seed=0,
        parameters={"contexts": ["16k", "32k"], "temperature": 1.0, "warm_max_tokens": 64},
        phases=("prime", "warm"),
        lanes=1,
        total_steps=143,
        max_steps=None,
        max_duration=1500.0,
        keep_going=False,
        content="generated low-entropy stand-in for SPEED-Bench, sized in the server's own tokens",
        stand_in=True,
        sources=(),
        coverage=("hit", "full"),
        oracles=("status", "stream", "liveness"),
        target=Target(url="http://127.0.0.1:8000", model="flare-hybrid-30b", dialect="flare", software="flare 0.9.2"),
        timeout=900.0,
        stream=False,
        scrape_interval=1.0,
        asides=True,
        sizing=Sizing(overhead=9.0, per_unit=1.25, how="measured"),
        versions={"kvstress": "0.1.0", "python": "3.11.2", "httpx": "0.28.1"},
        host={"machine": "x86_64", "system": "Linux 6.1", "cpus": "2"},
        commit="4f1c2aa",
        hardware="1x H200",
        command="kvstress run --server http://127.0.0.1:8000 --workload speedbench",
    )
    return replace(base, **changes)


def sample(step: int | None, at: float, used: float, **changes: Any) -> Sample:
    """A scrape of a Flare server whose pool holds `used` cached tokens."""
    cached = min(used, CAPACITY - 512.0)
    return Sample(
        at=at,
        why="start" if step is None else "step",
        step=step,
        took=0.004,
        dialect="flare",
        kv_capacity=CAPACITY,
        kv_free=CAPACITY - cached,
        kv_cached=cached,
        kv_usage=cached / CAPACITY,
        snapshots_free=101.0 - min(28, 2 * (step or 0)),
        requests_failed=0.0,
        raw={"flare_free_kv_tokens": CAPACITY - cached, "flare_free_snapshots": 101.0 - min(28, 2 * (step or 0))},
        **changes,
    )


def exchange(request: str, at: float, took: float, *, stream: bool = False, **changes: Any) -> Exchange:
    """A completed answer that took `took` seconds from `at`."""
    chunks = (at + took / 3, at + took) if stream else ()
    answer = Exchange(
        request=request,
        due=at,
        sent=at,
        headers_at=at + took / 4,
        ended=at + took,
        kind=Kind.OK,
        status=200,
        chunk_at=chunks,
        chunk_bytes=tuple(12 for _ in chunks),
        body_bytes=420,
        choices=(Choice(index=0, text="the river the river the", finish_reason="length"),),
        usage=Usage(prompt_tokens=16_004, completion_tokens=64, total_tokens=16_068, cached_tokens=15_872),
        model="flare-hybrid-30b",
    )
    return replace(answer, **changes)


def broken(request: str, at: float, words: str = WORDS) -> Exchange:
    """A 500 whose body says `words`."""
    body = f'{{"error":{{"message":"{words}","type":"server_error"}}}}'
    return exchange(
        request,
        at,
        0.14,
        kind=Kind.SERVER_ERROR,
        status=500,
        choices=(),
        usage=None,
        server_words=words,
        error_bytes=body,
    )


def sent(step: int, phase: str, at: float, tokens: int) -> RequestSent:
    """The request of `phase` of `step`."""
    return RequestSent(
        at=at,
        request=f"s{step}.{phase}",
        step=step,
        phase=phase,
        origin=Origin.STEP,
        endpoint="/v1/chat/completions",
        recipe=f"low-entropy seed=0 prompt={step} units={tokens}",
        body_sha256="ab" * 32,
        body_bytes=tokens * 5,
        tokens=tokens,
        max_tokens=1 if phase == "prime" else 64,
    )


def events(
    steps: int,
    *,
    fail_at: int | None = None,
    words: str = WORDS,
    metrics: bool = True,
    stream: bool = False,
    end: bool = True,
) -> Iterator[Event]:
    """The event stream of a speedbench run of `steps` prompts whose pool fills near prompt 14."""
    at, used = 0.5, 0.0
    if metrics:
        yield sample(None, at, 0.0)
    for step in range(steps):
        tokens = 16_000 if step % 2 == 0 else 32_000
        yield StepStarted(at=at, step=step, label=f"{tokens // 1000}k")
        begun = at
        for phase, took in (("prime", tokens / 52_000), ("warm", 0.21 + step % 7 * 0.004)):
            yield sent(step, phase, at, tokens)
            bad = phase == "warm" and step == fail_at
            yield (
                broken(f"s{step}.{phase}", at, words) if bad else exchange(f"s{step}.{phase}", at, took, stream=stream)
            )
            at += 0.14 if bad else took
        used += tokens * 1.45
        if metrics:
            yield sample(step, at, used)
        yield StepEnded(at=at, step=step, label=f"{tokens // 1000}k", seconds=at - begun)
    if end:
        yield from _tail(at, metrics, fail_at)


def _tail(at: float, metrics: bool, fail_at: int | None) -> Iterator[Event]:
    health = RequestSent(
        at=at, request="aside.health", step=None, phase="health", origin=Origin.ASIDE, endpoint="/v1/chat/completions",
        recipe="a short question", body_sha256="cd" * 32, body_bytes=120, tokens=20, max_tokens=8,
    )  # fmt: skip
    yield health
    yield exchange("aside.health", at, 0.05)
    if metrics:
        yield replace(sample(None, at + 0.1, CAPACITY), why="end")
    yield RunEnded(at=at + 0.2, stop=Stop.PLAN if fail_at is None else Stop.FAILURE)


def finding(step: int = 16, words: str = WORDS, **changes: Any) -> Finding:
    """STATUS' finding about the warm send of `step`."""
    base = Finding(
        oracle="status",
        verdict=Verdict.FAIL,
        signature=f"status/server-error/{words[:160]}",
        step=step,
        phase="warm",
        summary=f"prompt {step}, warm: HTTP 500, {words}",
        measured="HTTP 500",
        limit="a completed answer",
        evidence=(f"s{step}.warm",),
    )
    return replace(base, **changes)


def failed(step: int = 16, words: str = WORDS, **changes: Any) -> Judgement:
    """FAIL at `step`'s warm send with the pool full at 14."""
    found = finding(step, words)
    base = Judgement(
        verdict=Verdict.FAIL,
        why=f"The warm send of prompt {step} failed two prompts after the KV pool filled: HTTP 500, “{words[:80]}”.",
        steps=step,
        first_failure=FirstFailure(step=step, phase="warm", signature=found.signature, exposure=step),
        censored_at=None,
        pool_fill=PoolFill(
            step=14, how="measured-level", evidence="free fell to 512 tokens, less than the 16,000 of the step"
        ),
        coverage={"hit": True, "full": True},
        findings=(found,),
        requests={"completed": 2 * step + 1, "failed": 1},
        stopped="first failure",
    )
    return replace(base, **changes)


def passed(steps: int = 143, **changes: Any) -> Judgement:
    """PASS over `steps` prompts."""
    base = Judgement(
        verdict=Verdict.PASS,
        why=f"No failure in {steps} prompts, {max(0, steps - 15)} of them after the pool had filled.",
        steps=steps,
        first_failure=None,
        censored_at=steps,
        pool_fill=PoolFill(step=14, how="measured-eviction", evidence="evictions rose from 0 to 2"),
        coverage={"hit": True, "full": True},
        findings=(),
        requests={"completed": 2 * steps},
        stopped="plan completed",
    )
    return replace(base, **changes)


def invalid(steps: int = 9) -> Judgement:
    """INVALID: the pool never filled."""
    return passed(
        steps,
        verdict=Verdict.INVALID,
        why=f"The KV pool never filled in {steps} prompts, so this run says nothing about a full pool.",
        pool_fill=None,
        coverage={"hit": True, "full": False, "evicted": None},
        stopped="max steps",
    )


def ramp(steps: int) -> Iterator[Event]:
    """A run of one phase whose every step has a label of its own."""
    for step in range(steps):
        label, at = f"{step + 1}k", float(step)
        yield StepStarted(at=at, step=step, label=label)
        yield sent(step, "fill", at, 1_000 * (step + 1))
        yield exchange(f"s{step}.fill", at, 0.1 * (step + 1))
        yield StepEnded(at=at + 0.9, step=step, label=label, seconds=0.9)
    yield RunEnded(at=float(steps), stop=Stop.PLAN)
