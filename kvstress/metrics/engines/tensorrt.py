"""TensorRT-LLM: blocks, not tokens, on `/prometheus/metrics`.

Its free blocks include cached ones that may be reused, so they are no `kv_free`: a pool full of cached
blocks has them all free. Paused requests are a level, not a count, hence no preemptions.
"""

from collections.abc import Mapping

from kvstress.metrics.alias import STARTED, Dialect, Found, Reading, counter, gauge
from kvstress.metrics.parse import Page

_SHARDS = frozenset({"pid"})
_PER_BLOCK = gauge("trtllm_kv_cache_tokens_per_block", most=True)
_BLOCKS = gauge("trtllm_kv_cache_max_blocks")
_REUSED = counter("trtllm_kv_cache_reused_blocks")
_MISSED = counter("trtllm_kv_cache_missed_blocks")


def _in_tokens(page: Page, found: Mapping[str, Found]) -> Reading:
    """Block counts times tokens per block; cached tokens counted per request are preferred where they are exported."""
    per_block = TENSORRT.look_up(page, _PER_BLOCK)
    if per_block is None:
        return {}
    blocks, reused, missed = (TENSORRT.look_up(page, alias) for alias in (_BLOCKS, _REUSED, _MISSED))
    read: Reading = {}
    if blocks is not None:
        read["kv_capacity"] = Found(value=blocks.value * per_block.value, name=blocks.name)
    if reused is not None and missed is not None:
        asked = (reused.value + missed.value) * per_block.value
        read["prefix_queries"] = Found(value=asked, name=f"{reused.name} + {missed.name}")
    if reused is not None and "prefix_hits" not in found:
        read["prefix_hits"] = Found(value=reused.value * per_block.value, name=reused.name)
    return read


TENSORRT = Dialect(
    name="tensorrt-llm",
    prefixes=("trtllm_",),
    aliases={
        "kv_usage": gauge("trtllm_kv_cache_utilization", most=True),
        "running": gauge("trtllm_num_requests_running"),
        "waiting": gauge("trtllm_num_requests_waiting"),
        "prefix_hits": counter("trtllm_prompt_cached_tokens"),
        "prompt_tokens": counter("trtllm_prompt_tokens"),
        "generation_tokens": counter("trtllm_generation_tokens"),
        "requests_completed": counter("trtllm_num_requests_completed", "trtllm_request_success"),
        "requests_failed": counter("trtllm_request_error"),
        "process_started": STARTED,
    },
    derive=_in_tokens,
    shards=_SHARDS,
    split=(
        ("trtllm_prompt_cache_hit_tokens_total", "cache_tier"),
        ("trtllm_request_error_total", "http_code"),
    ),
)
