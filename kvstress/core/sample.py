"""One scrape of a server's metrics in canonical words, whatever the engine calls them.

None means that the server does not export it (or that the scrape failed); 0 means that it
said 0. The two stay apart into every table and the report.
"""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """Canonical metrics at `at` seconds since the run's start.

    Token counts are tokens, `kv_usage` is a fraction 0–1, counters are the server's running totals
    since it started. `why` is step, interval, start or end; `problem` says why nothing could
    be read. `raw` holds the dialect's own series by exported name, summed over labels.
    """

    at: float
    why: str
    step: int | None = None
    took: float | None = None
    dialect: str | None = None
    problem: str | None = None
    kv_capacity: float | None = None
    kv_free: float | None = None
    kv_cached: float | None = None
    kv_usage: float | None = None
    snapshots_free: float | None = None
    running: float | None = None
    waiting: float | None = None
    preemptions: float | None = None
    evictions: float | None = None
    prefix_queries: float | None = None
    prefix_hits: float | None = None
    prompt_tokens: float | None = None
    generation_tokens: float | None = None
    requests_completed: float | None = None
    requests_failed: float | None = None
    process_started: float | None = None
    raw: dict[str, float] = field(default_factory=dict)
