"""The event stream is the judge's whole input: what is not an event did not happen.

A run is the sequence of these records in the order they became known. The store writes one
per line of `events.jsonl`; the oracles fold over them, live and stored alike, which is why a
re-judged run cannot come out differently.
"""

from dataclasses import dataclass
from enum import StrEnum

from kvstress.core.exchange import Exchange
from kvstress.core.plan import Expect, Origin
from kvstress.core.sample import Sample


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestSent:
    """A request left. Its body is not stored: `recipe`, seed and sizing rebuild it, and `body_sha256` proves it.

    `at` is in seconds since the run's start; `tokens` the planned prompt size; `max_tokens` the output cap;
    `options` what else the body asks for (temperature, n, tools, …) as JSON text, "" in runs of older versions.
    """

    at: float
    request: str
    step: int | None
    phase: str
    origin: Origin
    endpoint: str
    recipe: str
    body_sha256: str
    body_bytes: int
    tokens: int | None = None
    max_tokens: int | None = None
    stream: bool = False
    expect: Expect = Expect.ANSWER
    session: str | None = None
    turn: int | None = None
    options: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepStarted:
    """Step `step` began at `at` seconds; `label` is its context ("16k")."""

    at: float
    step: int
    label: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StepEnded:
    """All requests of step `step` have ended and its scrape, if any, was taken.

    `seconds` is the step's time without that scrape. A failing step ends too.
    """

    at: float
    step: int
    label: str
    seconds: float


class ServerChange(StrEnum):
    """What happened to the server process or what it told about itself."""

    STARTED = "started"
    READY = "ready"
    EXITED = "exited"
    RESTARTED = "restarted"
    LOG = "log"
    LIMIT = "limit"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerEvent:
    """A change of the server. `code` is the exit code; for LIMIT `tokens` is the context length it announced."""

    at: float
    change: ServerChange
    detail: str = ""
    code: int | None = None
    tokens: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PageRead:
    """A page other than the metrics was asked for (`/health`) beside the traffic; `status` None: `problem` says why."""

    at: float
    path: str
    status: int | None = None
    problem: str | None = None
    took: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Lagged:
    """kvstress itself stood still for `seconds` before `at`: what it timed then says nothing about the server."""

    at: float
    seconds: float


class Stop(StrEnum):
    """Why a run ended."""

    FAILURE = "first failure"
    PLAN = "plan completed"
    STEPS = "max steps"
    DURATION = "max duration"
    REFUSAL = "refused as too long"
    INTERRUPTED = "interrupted"
    SERVER_GONE = "server exited"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEnded:
    """The run's last event; a run without one was killed."""

    at: float
    stop: Stop
    detail: str = ""


Event = RequestSent | Exchange | Sample | StepStarted | StepEnded | ServerEvent | PageRead | Lagged | RunEnded
