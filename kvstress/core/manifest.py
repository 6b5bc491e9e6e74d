"""The manifest names everything about a run that its events do not: who was tested, with what, by which version.

It is written before the first byte leaves, so that a run killed at any moment can still be
judged and rendered. No key, header value or credential ever enters it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kvstress.core.sizing import Sizing

SCHEMA_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The server under test. `url` carries no user information; `embedded` marks the reference server.

    `sends_done` is whether its healthy streams end in `[DONE]`, None when nothing was streamed.
    """

    url: str
    model: str | None
    embedded: bool = False
    launched: str | None = None
    dialect: str | None = None
    software: str | None = None
    context_limit: int | None = None
    sends_done: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """One run. `started` is wall time in ISO 8601 (a label only; events carry monotonic seconds).

    `workload` is the resolved workload as JSON values, `content` the sentence that says where
    prompts came from. `resumed_at` lists the steps at which the run was resumed; `restarts_of` names
    the run directory that this one began again from. `time_scale` multiplies how long one waits before silence counts.
    """

    schema_version: int = SCHEMA_VERSION
    run: str
    started: str
    workload: str
    hunts: str
    plan_digest: str
    seed: int
    parameters: Mapping[str, Any]
    phases: tuple[str, ...]
    lanes: int
    total_steps: int | None
    max_steps: int | None
    max_duration: float | None
    keep_going: bool
    content: str
    stand_in: bool
    sources: tuple[Mapping[str, str], ...]
    coverage: tuple[str, ...]
    oracles: tuple[str, ...]
    target: Target
    timeout: float
    stream: bool
    scrape_interval: float
    asides: bool
    sizing: Sizing | None = None
    versions: Mapping[str, str] = field(default_factory=dict)
    host: Mapping[str, str] = field(default_factory=dict)
    commit: str | None = None
    hardware: str | None = None
    command: str = ""
    resumed_at: tuple[int, ...] = ()
    restarts_of: str | None = None
    time_scale: float = 1.0
