"""The engine's books as Prometheus text.

The four names of the bug report carry no labels. `flare_cached_kv_tokens` counts pages held by cached prompts; pages
lent to snapshots are in neither gauge while lent, which is why free + cached is the capacity only when nothing is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from kvstress.refserver.engine import Stats

_GAUGES: dict[str, tuple[str, Callable[[Stats], float]]] = {
    "flare_free_kv_tokens": ("Token positions in pages that are free.", lambda s: s.free_tokens),
    "flare_cached_kv_tokens": ("Token positions in pages of cached prompts.", lambda s: s.cached_tokens),
    "flare_free_snapshots": ("Snapshot slots that hold no state.", lambda s: s.free_slots),
    "flare_kv_capacity_tokens": ("Token positions KV may use.", lambda s: s.capacity_tokens),
    "flare_kv_usage_ratio": ("Share of the pool that is not free.", lambda s: 1 - s.free_tokens / s.capacity_tokens),
    "flare_alias_kv_tokens": ("Token positions in pages lent to snapshots.", lambda s: s.alias_tokens),
    "flare_snapshots": ("Snapshot slots.", lambda s: s.slots),
    "flare_cached_prompts": ("Prompts that can be resumed.", lambda s: s.cached_prompts),
    "flare_requests_running": ("Requests that have pages.", lambda s: s.running),
    "flare_requests_waiting": ("Requests that wait for pages.", lambda s: s.waiting),
}
_COUNTERS: dict[str, tuple[str, Callable[[Stats], float]]] = {
    "flare_requests_failed": ("Requests the engine gave up.", lambda s: s.tally.failed),
    "flare_requests_finished": ("Requests answered to the end.", lambda s: s.tally.finished),
    "flare_requests_cancelled": ("Requests whose client went away.", lambda s: s.tally.cancelled),
    "flare_requests": ("Requests that reached the engine; n counts as n.", lambda s: s.tally.requests),
    "flare_preemptions": ("Requests put back for want of pages.", lambda s: s.tally.preemptions),
    "flare_evictions": ("Cached prompts evicted.", lambda s: s.evictions),
    "flare_evicted_tokens": ("Tokens of cached prompts evicted.", lambda s: s.evicted_tokens),
    "flare_prompt_tokens": ("Prompt tokens of finished requests.", lambda s: s.tally.prompt_tokens),
    "flare_generation_tokens": ("Tokens generated.", lambda s: s.tally.generated_tokens),
    "flare_prefix_cache_queries": ("Prompt tokens looked up.", lambda s: s.tally.prefix_queries),
    "flare_prefix_cache_hits": ("Prompt tokens found in the cache.", lambda s: s.tally.prefix_hits),
    "flare_draft_tokens": ("Speculative tokens proposed.", lambda s: s.tally.drafted),
    "flare_accepted_tokens": ("Speculative tokens accepted.", lambda s: s.tally.accepted),
    "flare_engine_steps": ("Steps of the engine.", lambda s: s.steps),
}


class _EngineCollector(Collector):
    def __init__(self, stats: Callable[[], Stats]) -> None:
        self._stats = stats

    def collect(self) -> Iterator[Metric]:
        stats = replace(self._stats())
        for name, (text, value) in _GAUGES.items():
            yield GaugeMetricFamily(name, text, value=value(stats))
        for name, (text, value) in _COUNTERS.items():
            yield CounterMetricFamily(name, text, value=value(stats))


class Exporter:
    """Renders /metrics from whatever the engine published last."""

    def __init__(self, stats: Callable[[], Stats]) -> None:
        self._registry = CollectorRegistry()
        self._registry.register(_EngineCollector(stats))
        ProcessCollector(registry=self._registry)

    def render(self) -> bytes:
        """The page, in the text format."""
        return generate_latest(self._registry)
