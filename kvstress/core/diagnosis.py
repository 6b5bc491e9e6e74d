"""What `doctor` found out about one server, and about kvstress on this machine."""

from dataclasses import dataclass

from kvstress.core.features import Features


@dataclass(frozen=True, slots=True, kw_only=True)
class Can:
    """Whether an oracle can run, or a coverage key be reached; `why` names what is missing, or a caution."""

    name: str
    yes: bool
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """Streamed events a second (median of `rounds`, with the quartiles), and the loop's lateness in seconds."""

    events_per_second: float
    lower: float
    upper: float
    rounds: int
    lag_median: float
    lag_worst: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """One server, as it was seen. `requests` were sent in all."""

    url: str
    model: str
    software: str | None
    version: str | None
    context_limit: int | None
    dialect: str | None
    features: Features
    oracles: tuple[Can, ...]
    coverage: tuple[Can, ...]
    requests: int
    pace: Pace
