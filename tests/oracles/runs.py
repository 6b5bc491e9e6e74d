"""Event streams for oracle tests, built from the words a test cares about."""

from collections.abc import Iterator

from kvstress.core.events import Event, RequestSent, RunEnded, StepEnded, StepStarted, Stop
from kvstress.core.exchange import Choice, Exchange, Usage
from kvstress.core.manifest import Manifest, Target
from kvstress.core.outcome import Kind
from kvstress.core.plan import Expect, Origin

ALL = ("STATUS", "STREAM", "LIVENESS")


def manifest(oracles: tuple[str, ...] = ALL, coverage: tuple[str, ...] = (), timeout: float = 900.0) -> Manifest:
    return Manifest(
        run="run",
        started="2026-01-01T00:00:00+00:00",
        workload="speedbench",
        hunts="a bug",
        plan_digest="0" * 64,
        seed=0,
        parameters={},
        phases=("prime", "warm"),
        lanes=1,
        total_steps=None,
        max_steps=None,
        max_duration=None,
        keep_going=False,
        content="made up",
        stand_in=True,
        sources=(),
        coverage=coverage,
        oracles=oracles,
        target=Target(url="http://127.0.0.1:1", model="m"),
        timeout=timeout,
        stream=False,
        scrape_interval=2.0,
        asides=True,
    )


def sent(
    step: int | None,
    phase: str = "warm",
    *,
    tokens: int | None = 100,
    max_tokens: int = 10,
    expect: Expect = Expect.ANSWER,
    origin: Origin = Origin.STEP,
    stream: bool = False,
) -> RequestSent:
    return RequestSent(
        at=float(step or 0),
        request=f"s{step}.{phase}",
        step=step,
        phase=phase,
        origin=origin,
        endpoint="/v1/chat/completions",
        recipe="r",
        body_sha256="0" * 64,
        body_bytes=10,
        tokens=tokens,
        max_tokens=max_tokens,
        stream=stream,
        expect=expect,
    )


def answer(
    asked: RequestSent,
    kind: Kind = Kind.OK,
    *,
    status: int | None = 200,
    words: str | None = None,
    prompt_tokens: int | None = None,
    cached: int | None = None,
    chunks: int = 0,
) -> Exchange:
    start = asked.at
    usage = None if prompt_tokens is None else Usage(prompt_tokens=prompt_tokens, cached_tokens=cached)
    return Exchange(
        request=asked.request,
        due=start,
        sent=start,
        ended=start + 0.5,
        kind=kind,
        status=status,
        server_words=words,
        chunk_at=tuple(start + 0.1 * (index + 1) for index in range(chunks)),
        chunk_bytes=(10,) * chunks,
        choices=(Choice(index=0, text="x", finish_reason="length"),) if kind is Kind.OK else (),
        usage=usage,
    )


def step(index: int, *kinds: Kind, words: str | None = None) -> Iterator[Event]:
    """One step, one request per kind (default: prime and warm, both completed)."""
    yield StepStarted(at=float(index), step=index, label="16k")
    for phase, kind in zip(("prime", "warm"), kinds or (Kind.OK, Kind.OK), strict=False):
        asked = sent(index, phase)
        yield asked
        status = {Kind.OK: 200, Kind.SERVER_ERROR: 500, Kind.CLIENT_ERROR: 400, Kind.TOO_LONG: 400}.get(kind)
        yield answer(asked, kind, status=status, words=words)
    yield StepEnded(at=index + 0.9, step=index, label="16k", seconds=0.9)


def ended(stop: Stop = Stop.PLAN) -> RunEnded:
    return RunEnded(at=1000.0, stop=stop)
