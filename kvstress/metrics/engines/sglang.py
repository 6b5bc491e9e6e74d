"""SGLang: pool states in tokens, an eviction counter, retractions.

Gauges are pushed with batches and stand still at idle. Tensor- and pipeline-parallel ranks repeat one
another's numbers; data-parallel ones add up; with priority scheduling the series without a priority is
the total of those with one.
"""

from kvstress.metrics.alias import STARTED, Dialect, counter, gauge

SGLANG = Dialect(
    name="sglang",
    prefixes=("sglang:",),
    aliases={
        "kv_capacity": gauge("sglang:max_total_num_tokens"),
        "kv_free": gauge("sglang:kv_available_tokens"),
        "kv_cached": gauge("sglang:kv_evictable_tokens"),
        # Leaves evictable tokens out; the largest of the pools of a hybrid model.
        "kv_usage": gauge("sglang:token_usage", most=True),
        "running": gauge("sglang:num_running_reqs"),
        "waiting": gauge("sglang:num_queue_reqs"),
        "preemptions": counter("sglang:num_retracted_requests"),
        "evictions": counter("sglang:evicted_tokens"),
        "prefix_queries": counter("sglang:prompt_tokens"),
        "prefix_hits": counter("sglang:cached_tokens"),
        "prompt_tokens": counter("sglang:prompt_tokens"),
        "generation_tokens": counter("sglang:generation_tokens"),
        "requests_completed": counter("sglang:num_requests"),
        "process_started": STARTED,
    },
    shards=frozenset({"tp_rank", "pp_rank", "moe_ep_rank", "pid"}),
    totals=frozenset({"priority"}),
    split=(("sglang:cached_tokens_total", "cache_source"),),
)
