"""Runs to store: small, complete, and with the words that servers really say."""

from collections.abc import Iterator

from hypothesis import strategies as st

from kvstress.core.events import (
    Event,
    Lagged,
    PageRead,
    RequestSent,
    RunEnded,
    ServerChange,
    ServerEvent,
    StepEnded,
    StepStarted,
    Stop,
)
from kvstress.core.exchange import Choice, Exchange, Usage
from kvstress.core.manifest import Manifest, Target
from kvstress.core.outcome import Kind
from kvstress.core.plan import Origin
from kvstress.core.sample import Sample
from kvstress.core.verdict import Finding, FirstFailure, Judgement, PoolFill, Verdict

DEVICE_ERROR = '{"error": {"message": "prepared model reported device error 6"}}'


def manifest(phases: tuple[str, ...] = ("prime", "warm")) -> Manifest:
    return Manifest(
        run="speedbench-1",
        started="2026-03-01T12:00:00+00:00",
        workload="speedbench",
        hunts="corruption of pages that a resumed prefix reads",
        plan_digest="0" * 64,
        seed=7,
        parameters={"sizes": [16000, 32000], "temperature": 1.0},
        phases=phases,
        lanes=1,
        total_steps=None,
        max_steps=20,
        max_duration=1500.0,
        keep_going=False,
        content="generated stand-in",
        stand_in=True,
        sources=({"file": "a.jsonl", "sha256": "1" * 64},),
        coverage=("hit", "full"),
        oracles=("STATUS",),
        target=Target(url="http://127.0.0.1:8000", model="toy"),
        timeout=900.0,
        stream=False,
        scrape_interval=1.0,
        asides=True,
    )


def judgement() -> Judgement:
    signature = "STATUS|server-error|prepared model reported device error 6"
    finding = Finding(
        oracle="STATUS",
        verdict=Verdict.FAIL,
        signature=signature,
        step=2,
        phase="warm",
        summary="the warm send of prompt 2 failed",
        measured="HTTP 500",
        limit="HTTP 200",
        evidence=("s2.warm",),
    )
    return Judgement(
        verdict=Verdict.FAIL,
        why="prompt 2 failed",
        steps=2,
        first_failure=FirstFailure(step=2, phase="warm", signature=signature, exposure=2),
        censored_at=None,
        pool_fill=PoolFill(step=1, how="measured-level", evidence="cached fell from 9 to 4"),
        coverage={"hit": True, "full": None},
        findings=(finding,),
        requests={"completed": 5, "failed": 1},
        stopped="first failure",
    )


def sent(step: int | None, phase: str, at: float = 0.0, origin: Origin = Origin.STEP) -> RequestSent:
    name = f"s{step}.{phase}" if origin == Origin.STEP else f"{origin.value}.{phase}"
    return RequestSent(
        at=at,
        request=name,
        step=step,
        phase=phase,
        origin=origin,
        endpoint="/v1/chat/completions",
        recipe="words(seed=7, step=1)",
        body_sha256="2" * 64,
        body_bytes=70_000,
        tokens=16_000,
        max_tokens=64,
    )


def answered(request: str, at: float = 0.0, kind: Kind = Kind.OK, words: str | None = None) -> Exchange:
    return Exchange(
        request=request,
        due=at,
        sent=at + 0.001,
        headers_at=at + 0.2,
        ended=at + 0.5,
        kind=kind,
        status=200 if kind == Kind.OK else 500,
        choices=(Choice(index=0, text="a b c", finish_reason="length"),) if kind == Kind.OK else (),
        usage=Usage(prompt_tokens=16_012, completion_tokens=64, cached_tokens=15_872) if kind == Kind.OK else None,
        error_bytes=words,
        server_words=words,
    )


def sample(step: int | None, at: float, why: str = "step", free: float = 400_000.0) -> Sample:
    raw = {"flare_free_kv_tokens": free, "flare_cached_kv_tokens": 80_000.0, "flare_free_snapshots": 73.0}
    return Sample(
        at=at,
        why=why,
        step=step,
        took=0.002,
        dialect="flare",
        kv_free=free,
        kv_cached=80_000.0,
        snapshots_free=73.0,
        requests_failed=0.0,
        raw=raw | {"flare_requests_failed_total": 0.0},
    )


def one_step(step: int, *, fails: bool = False, scraped: bool = True) -> Iterator[Event]:
    at = float(step)
    yield StepStarted(at=at, step=step, label="16k")
    yield sent(step, "prime", at)
    yield answered(f"s{step}.prime", at)
    yield sent(step, "warm", at + 0.5)
    kind, words = (Kind.SERVER_ERROR, DEVICE_ERROR) if fails else (Kind.OK, None)
    yield answered(f"s{step}.warm", at + 0.5, kind, words)
    if scraped:
        yield sample(step, at + 0.99)
    yield StepEnded(at=at + 0.995, step=step, label="16k", seconds=0.99)


def head() -> Iterator[Event]:
    yield ServerEvent(at=0.0, change=ServerChange.READY)
    yield sample(None, 0.0, why="start")
    yield sent(None, "0", origin=Origin.SIZING)
    yield answered("sizing.0")


def whole_run() -> Iterator[Event]:
    """Three steps, the last of which fails, and the tail of a run that ended by itself."""
    yield from head()
    yield from one_step(0)
    yield from one_step(1)
    yield from one_step(2, fails=True)
    yield sent(None, "after", 3.0, origin=Origin.ASIDE)
    yield answered("aside.after", 3.0)
    yield sample(None, 3.5, why="end")
    yield RunEnded(at=3.6, stop=Stop.FAILURE)


def _finite() -> st.SearchStrategy[float]:
    return st.floats(allow_nan=False)


# Every field of every event, built from its annotation. NaN is tested apart, since it never equals itself.
st.register_type_strategy(float, _finite())
ANY_EVENT: st.SearchStrategy[Event] = st.one_of(
    *(
        st.from_type(kind)
        for kind in (
            RequestSent,
            Exchange,
            Sample,
            StepStarted,
            StepEnded,
            ServerEvent,
            PageRead,
            Lagged,
            RunEnded,
        )
    )
)

_STEP = st.integers(0, 2)
_PHASE = st.sampled_from(("prime", "warm"))

# Events that refer to each other often enough to make stories: retried steps, lost requests, strays.
RELATED_EVENT: st.SearchStrategy[Event] = st.one_of(
    st.builds(StepStarted, at=st.just(1.0), step=_STEP, label=st.text(max_size=5)),
    st.builds(sent, _STEP, _PHASE),
    st.builds(
        lambda step, phase, kind, words: answered(f"s{step}.{phase}", 1.0, kind, words),
        _STEP,
        _PHASE,
        st.sampled_from(Kind),
        st.text(),
    ),
    st.builds(sample, _STEP, st.just(1.0)),
    st.builds(StepEnded, at=st.just(2.0), step=_STEP, label=st.just("16k"), seconds=st.floats()),
    ANY_EVENT,
)
