"""Event streams for the folds over pools, told step by step with the numbers that matter."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from kvstress.core.events import Event, RequestSent, RunEnded, ServerChange, ServerEvent, StepEnded, StepStarted, Stop
from kvstress.core.exchange import Exchange, Usage
from kvstress.core.outcome import Kind
from kvstress.core.plan import Origin
from kvstress.core.sample import Sample

OFTEN = 10.0

# What the embedded reference server at --memory-limit 50G showed after each step of speedbench: (free, cached) tokens.
RECORDED_CAPACITY = 481_280
RECORDED_LEVELS = (
    (455_424, 16_128),
    (413_568, 48_256),
    (387_840, 64_384),
    (346_112, 96_512),
    (320_384, 112_640),
    (278_656, 144_768),
    (252_928, 160_896),
    (211_200, 193_024),
    (185_344, 209_152),
    (143_616, 241_280),
    (117_888, 257_408),
    (76_160, 289_536),
    (50_432, 305_664),
    (8_704, 337_792),
    (8_704, 337_792),
    (8_704, 337_792),
    (8_704, 337_792),
)


class Story:
    """Writes events in order; each method adds what one thing that happened leaves behind. One tick is ten seconds."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self._at = 0.0

    def now(self) -> float:
        self._at += OFTEN
        return self._at

    def sample(self, why: str = "interval", step: int | None = None, **levels: Any) -> "Story":
        self.events.append(Sample(at=self.now(), why=why, step=step, **levels))
        return self

    def begin(self, step: int) -> "Story":
        self.events.append(StepStarted(at=self.now(), step=step, label="16k"))
        return self

    def end(self, step: int, **levels: Any) -> "Story":
        if levels:
            self.sample("step", step, **levels)
        self.events.append(StepEnded(at=self.now(), step=step, label="16k", seconds=1.0))
        return self

    def ask(self, name: str, step: int | None, prompt: str, **more: Any) -> "Story":
        origin = more.pop("origin", Origin.STEP)
        endpoint = more.pop("endpoint", "/v1/chat/completions")
        self.events.append(
            RequestSent(
                at=self.now(),
                request=name,
                step=step,
                phase="x",
                origin=origin,
                endpoint=endpoint,
                recipe=prompt,
                body_sha256=name,
                body_bytes=1,
                **more,
            )
        )
        return self

    def answer(
        self,
        name: str,
        tokens: int | None,
        cached: int | None = 0,
        *,
        output: int = 1,
        kind: Kind = Kind.OK,
        took: float = 1.0,
        first: float | None = None,
    ) -> "Story":
        """`took` and `first` (streamed) are seconds from sending to the end and to the first content."""
        usage = None if tokens is None else Usage(prompt_tokens=tokens, completion_tokens=output, cached_tokens=cached)
        sent = self.now()
        chunks = () if first is None else (sent + first,)
        self.events.append(
            Exchange(request=name, due=sent, sent=sent, ended=sent + took, kind=kind, usage=usage, chunk_at=chunks)
        )
        return self

    def send(self, name: str, step: int | None, prompt: str, tokens: int | None, cached: int | None = 0) -> "Story":
        return self.ask(name, step, prompt, tokens=tokens).answer(name, tokens, cached)

    def server(self, change: ServerChange) -> "Story":
        self.events.append(ServerEvent(at=self.now(), change=change))
        return self


def speedbench(steps: int, *, reports_hits: bool = True) -> Story:
    """The recorded run: alternating 16k and 32k prompts, each sent twice, a scrape after each."""
    story = Story().sample("start", kv_free=RECORDED_CAPACITY, kv_cached=0)
    for step in range(steps):
        size = 16_005 if step % 2 == 0 else 32_005
        free, cached = RECORDED_LEVELS[step]
        story.begin(step)
        story.send(f"s{step}.prime", step, f"text {step}", size, 0 if reports_hits else None)
        story.send(f"s{step}.warm", step, f"text {step}", size, size - 1 if reports_hits else None)
        story.end(step, kv_free=free, kv_cached=cached)
    return story


def blind(events: list[Event], **kept: Any) -> list[Event]:
    """`events` as a server would give them whose page says only what is in `kept`."""
    return [
        Sample(at=event.at, why=event.why, step=event.step, **kept) if isinstance(event, Sample) else event
        for event in events
    ]


_LEVEL = st.one_of(st.none(), st.sampled_from([0.0, 0.5, 1.0, 100.0, 1e5]))
_COUNT = st.one_of(st.none(), st.integers(-1, 200))
_STEP = st.one_of(st.none(), st.integers(0, 3))
_NAME = st.sampled_from(["s0.a", "s1.a", "s2.a", "s3.a"])
_AT = st.floats(0, 100)


def any_events() -> st.SearchStrategy[list[Event]]:
    """Any events in any order, as a broken harness, a killed run or a lying server might leave them."""
    usage = st.builds(Usage, prompt_tokens=_COUNT, completion_tokens=_COUNT, cached_tokens=_COUNT)
    sent = st.builds(
        RequestSent,
        at=_AT,
        request=_NAME,
        step=_STEP,
        phase=st.just("x"),
        origin=st.sampled_from(Origin),
        endpoint=st.sampled_from(["/v1/chat/completions", "/flush_cache"]),
        recipe=st.sampled_from(["", "text 0", "text 1"]),
        body_sha256=st.sampled_from(["a", "b"]),
        body_bytes=st.just(1),
        tokens=_COUNT,
        max_tokens=_COUNT,
        session=st.sampled_from([None, "one"]),
    )
    exchange = st.builds(
        Exchange,
        request=_NAME,
        due=_AT,
        sent=_AT,
        ended=_AT,
        kind=st.sampled_from(Kind),
        usage=st.one_of(st.none(), usage),
    )
    levels = ("kv_capacity", "kv_free", "kv_cached", "kv_usage", "running", "generation_tokens", "process_started")
    counters = ("preemptions", "evictions", "prefix_hits", "prefix_queries")
    raw = st.dictionaries(
        st.sampled_from(["x_abort_total", "x_draft_tokens_total", "onboard_blocks_h2d"]), st.floats(0, 9)
    )
    sample = st.builds(
        Sample,
        at=_AT,
        why=st.sampled_from(["start", "step", "interval", "end"]),
        step=_STEP,
        problem=st.sampled_from([None, "cut off"]),
        raw=raw,
        **dict.fromkeys((*levels, *counters), _LEVEL),
    )
    started = st.builds(StepStarted, at=_AT, step=st.integers(0, 3), label=st.just("x"))
    stopped = st.builds(StepEnded, at=_AT, step=st.integers(0, 3), label=st.just("x"), seconds=st.just(1.0))
    server = st.builds(ServerEvent, at=_AT, change=st.sampled_from(ServerChange))
    ended = st.builds(RunEnded, at=_AT, stop=st.sampled_from(Stop))
    return st.lists(st.one_of(sent, exchange, sample, sample, started, stopped, server, ended), max_size=25)


def with_noise(events: list[Event], places: list[int]) -> Iterator[Event]:
    """`events` with log lines, limits and scrapes that read nothing put in at `places`."""
    for index, event in enumerate(events):
        yield event
        if index in places:
            yield ServerEvent(at=event.at if not isinstance(event, Exchange) else event.ended, change=ServerChange.LOG)
            yield ServerEvent(at=0.0, change=ServerChange.LIMIT, tokens=1)
            yield Sample(at=0.0, why="interval", problem="/metrics could not be read: timed out")


def repeated_scrapes(events: list[Event], places: list[int]) -> Iterator[Event]:
    """`events` where at `places` an interval scrape, too, reads what the last one read."""
    last: Sample | None = None
    for index, event in enumerate(events):
        yield event
        last = event if isinstance(event, Sample) else last
        if index in places and last is not None:
            yield replace(last, why="interval", step=None)
