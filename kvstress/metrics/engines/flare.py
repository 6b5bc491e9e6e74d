"""Flare: four names from a bug report, and what other builds export beside them.

Its pool is full when no token is free, since cached tokens are evictable. Pages lent to snapshots are
neither free nor cached, so free + cached is the capacity only of an idle server that holds nothing.
"""

from kvstress.metrics.alias import STARTED, Dialect, counter, gauge

FLARE = Dialect(
    name="flare",
    prefixes=("flare_",),
    aliases={
        "kv_free": gauge("flare_free_kv_tokens"),
        "kv_cached": gauge("flare_cached_kv_tokens"),
        "snapshots_free": gauge("flare_free_snapshots"),
        "requests_failed": counter("flare_requests_failed"),
        # Not every Flare has the rest; without a capacity gauge the Scraper works it out.
        "kv_capacity": gauge("flare_kv_capacity_tokens"),
        "running": gauge("flare_requests_running"),
        "waiting": gauge("flare_requests_waiting"),
        "preemptions": counter("flare_preemptions"),
        "evictions": counter("flare_evictions"),
        "prefix_queries": counter("flare_prefix_cache_queries"),
        "prefix_hits": counter("flare_prefix_cache_hits"),
        "prompt_tokens": counter("flare_prompt_tokens"),
        "generation_tokens": counter("flare_generation_tokens"),
        "requests_completed": counter("flare_requests_finished"),
        "process_started": STARTED,
    },
)
