"""vLLM: 0.x (`gpu_cache_usage_perc`, `gpu_prefix_cache_*`), and v1 up to 0.32.

Its usage gauge counts referenced blocks only: it reads 0 at idle with a cache full of reusable
blocks, and can never show that a pool is full of them.
"""

import math
from collections.abc import Mapping

from kvstress.metrics.alias import STARTED, Dialect, Found, Reading, counter, counter_of, gauge, number
from kvstress.metrics.parse import Page, Series


def _capacity(page: Page, found: Mapping[str, Found]) -> Reading:
    """Capacity from the labels of `cache_config_info`, one series per data-parallel engine.

    The size in tokens is preferred: with hybrid models a block is not block_size tokens of every layer.
    """
    name = "vllm:cache_config_info"
    sizes = [_vllm_tokens(series) for series in page.series.get(name, ())]
    if not sizes or any(math.isnan(size) for size in sizes):
        return {}
    return {"kv_capacity": Found(value=sum(sizes), name=name)}


def _vllm_tokens(series: Series) -> float:
    size = number(series.labels.get("kv_cache_size_tokens"))
    if not math.isnan(size):
        return size
    return number(series.labels.get("num_gpu_blocks")) * number(series.labels.get("block_size"))


VLLM = Dialect(
    name="vllm",
    prefixes=("vllm:",),
    aliases={
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
        "process_started": STARTED,
    },
    derive=_capacity,
    split=(
        ("vllm:request_success_total", "finished_reason"),
        ("vllm:num_requests_waiting_by_reason", "reason"),
        ("vllm:admission_rejections_total", "reason"),
        ("vllm:prompt_tokens_cached_by_source_total", "source"),
        ("vllm:prompt_tokens_by_source_total", "source"),
    ),
)
