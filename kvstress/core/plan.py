"""A plan says everything that will be sent before anything is sent, so that a run can be repeated and shrunk.

Steps are generated lazily and deterministically: the same workload, seed and sizing give the
same bytes in every process. The one thing a plan cannot know is what the server will answer;
where a later request must quote it, the body has an `Answer` hole that `resolve` fills from the
live transcript.
"""

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any


class Origin(StrEnum):
    """Why a request was sent. Only STEP requests count in steps and timings."""

    STEP = "step"
    SIZING = "sizing"
    ASIDE = "aside"


class Expect(StrEnum):
    """What a healthy server does with a request.

    ANSWER: it completes. ANSWER_OR_REFUSAL: it completes, or says in a clean 4xx that the
    request does not fit.
    """

    ANSWER = "answer"
    ANSWER_OR_REFUSAL = "answer-or-refusal"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A hole in a body: the text that the server gave to `phase` of `step`."""

    step: int
    phase: str


class CancelAt(StrEnum):
    """Where in a request's life we close its connection."""

    QUEUED = "queued"
    PREFILL = "prefill"
    FIRST_CHUNK = "first-chunk"
    DECODE = "decode"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cancel:
    """When we close a request's connection: `after` seconds from its sending, or at its content chunk number `chunks`.

    A client cannot see where a request stands before its first chunk, so `at` says what was intended there.
    A request that ends before its moment comes is not cancelled.
    """

    at: CancelAt
    after: float | None = None
    chunks: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One HTTP request. `body` may hold `Answer` holes until it is resolved; `endpoint` is a path on the server.

    `recipe` says how the prompt was made (never its text); `tokens` is its planned size in
    prompt tokens, None when the text came from a dataset and was not measured. `beside`: it leaves at the same
    moment as the request before it in the step; else it leaves `delay` seconds after that one's answer (and those of
    all that left beside it).
    """

    id: str
    step: int | None
    phase: str
    origin: Origin = Origin.STEP
    endpoint: str = "/v1/chat/completions"
    body: Mapping[str, Any]
    expect: Expect = Expect.ANSWER
    recipe: str = ""
    tokens: int | None = None
    session: str | None = None
    turn: int | None = None
    cancel: Cancel | None = None
    beside: bool = False
    delay: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One prompt with its phases, sent in this order, or one turn of a session.

    `label` is what the report's context column shows ("16k"). Turns of one `session` never overlap: each begins `think`
    seconds after the one before it ended. `due`: seconds after the start of the traffic at which an open loop sends it.
    `barrier`: it begins when all steps before it have ended, and none after it begins before it has.
    """

    index: int
    label: str
    requests: tuple[Request, ...]
    session: str | None = None
    think: float = 0.0
    due: float | None = None
    barrier: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """When requests leave. `closed`: each of `lanes` sends its next step when its last one ended.

    `open`: each step leaves when it is due, however late the server is; `lanes` then means nothing.
    """

    kind: str = "closed"
    lanes: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """When a run ends by itself. None means no limit of that kind."""

    max_steps: int | None = None
    max_duration: float | None = None
    keep_going: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a workload will send. `steps()` starts anew at each call and yields the same steps.

    `content` says where prompt text comes from, in a sentence that reports repeat; `stand_in`
    is true when it was generated in place of a dataset that the workload is named after.
    `parameters` are the workload's resolved settings, all JSON values; `traffic` those of them
    that decide what is sent, which caps, oracles and coverage do not.
    """

    workload: str
    hunts: str
    seed: int
    parameters: Mapping[str, Any]
    traffic: Mapping[str, Any]
    schedule: Schedule
    limits: Limits
    phases: tuple[str, ...]
    total_steps: int | None
    content: str
    stand_in: bool
    coverage: tuple[str, ...]
    oracles: tuple[str, ...]
    aside_when: str
    steps: Callable[[], Iterator[Step]]
    sources: tuple[Mapping[str, str], ...] = field(default_factory=tuple)

    def digest(self) -> str:
        """sha256 over what decides the traffic (workload, seed, settings, data); equal digests pair two runs."""
        decided = [self.workload, self.seed, dict(self.traffic), [dict(s) for s in self.sources]]
        return hashlib.sha256(json.dumps(decided, sort_keys=True, default=str).encode()).hexdigest()


def resolve(request: Request, transcript: Mapping[tuple[int, str], str]) -> Request:
    """`request` with each `Answer` hole replaced by the transcript's text; a phase that never answered leaves ''."""
    return replace(request, body=_fill(request.body, transcript))


def _fill(value: Any, transcript: Mapping[tuple[int, str], str]) -> Any:
    if isinstance(value, Answer):
        return transcript.get((value.step, value.phase), "")
    if isinstance(value, Mapping):
        return {key: _fill(item, transcript) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_fill(item, transcript) for item in value]
    return value
