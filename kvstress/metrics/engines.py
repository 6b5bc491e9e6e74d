"""The alias tables, one per engine: what each exports of the quantities that a Sample has.

Every name was read on a recorded page or in the engine's source (see the tests' data). `kv_free`
is filled only where the engine's "free" leaves out evictable cached tokens: elsewhere a pool
full of cached pages would look empty.
"""

import math
from collections.abc import Mapping

from kvstress.metrics.alias import Dialect, Found, Reading, counter, counter_of, gauge
from kvstress.metrics.parse import Page, Series

_STARTED = gauge("process_start_time_seconds", most=True)

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
        "process_started": _STARTED,
    },
)


def _vllm(page: Page, found: Mapping[str, Found]) -> Reading:
    """Capacity from the labels of `cache_config_info`, one series per data-parallel engine.

    The size in tokens is preferred: with hybrid models a block is not block_size tokens of every layer.
    """
    name = "vllm:cache_config_info"
    sizes = [_vllm_tokens(series) for series in page.series.get(name, ())]
    if not sizes or any(math.isnan(size) for size in sizes):
        return {}
    return {"kv_capacity": Found(value=sum(sizes), name=name)}


def _vllm_tokens(series: Series) -> float:
    size = _number(series.labels.get("kv_cache_size_tokens"))
    if not math.isnan(size):
        return size
    return _number(series.labels.get("num_gpu_blocks")) * _number(series.labels.get("block_size"))


def _number(label: str | None) -> float:
    """A label's number; NaN for None, "None" and other words."""
    try:
        return float(label) if label is not None else math.nan
    except ValueError:
        return math.nan


VLLM = Dialect(
    name="vllm",
    prefixes=("vllm:",),
    aliases={
        # Counts referenced blocks only: a pool full of cached blocks reads 0 here.
        "kv_usage": gauge("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc", most=True),
        "running": gauge("vllm:num_requests_running"),
        "waiting": gauge("vllm:num_requests_waiting"),
        "preemptions": counter("vllm:num_preemptions"),
        "prefix_queries": counter("vllm:prefix_cache_queries", "vllm:gpu_prefix_cache_queries"),
        "prefix_hits": counter("vllm:prefix_cache_hits", "vllm:gpu_prefix_cache_hits"),
        "prompt_tokens": counter("vllm:prompt_tokens"),
        "generation_tokens": counter("vllm:generation_tokens"),
        "requests_completed": counter_of("vllm:request_success", "finished_reason", without=("abort", "error")),
        "requests_failed": counter_of("vllm:request_success", "finished_reason", only=("error",)),
        "process_started": _STARTED,
    },
    derive=_vllm,
    split=(
        ("vllm:request_success_total", "finished_reason"),
        ("vllm:num_requests_waiting_by_reason", "reason"),
        ("vllm:admission_rejections_total", "reason"),
        ("vllm:prompt_tokens_cached_by_source_total", "source"),
        ("vllm:prompt_tokens_by_source_total", "source"),
    ),
)


def _llamacpp(page: Page, found: Mapping[str, Found]) -> Reading:
    """All prompt tokens: this engine's `prompt_tokens_total` leaves the cached ones out."""
    fresh, hits = found.get("prompt_tokens"), found.get("prefix_hits")
    if fresh is None or hits is None:
        return {}
    both = Found(value=fresh.value + hits.value, name=f"{fresh.name} + {hits.name}")
    return {"prompt_tokens": both, "prefix_queries": both}


LLAMACPP = Dialect(
    name="llama.cpp",
    prefixes=("llamacpp:",),
    aliases={
        "kv_usage": gauge("llamacpp:kv_cache_usage_ratio", most=True),
        "running": gauge("llamacpp:requests_processing"),
        "waiting": gauge("llamacpp:requests_deferred"),
        "prefix_hits": counter("llamacpp:prompt_tokens_cached"),
        "prompt_tokens": counter("llamacpp:prompt_tokens"),
        "generation_tokens": counter("llamacpp:tokens_predicted"),
        "process_started": _STARTED,
    },
    derive=_llamacpp,
)

DIALECTS: tuple[Dialect, ...] = (FLARE, VLLM, LLAMACPP)
