"""Dynamo: a router's view of its workers.

A worker's own page carries its engine's series too, and is read as that engine's. Names are composed in
Dynamo's code from a prefix and a suffix; those here are the default prefix's. What they say of the pool is the
configuration and the router's bookkeeping, not the engine's state.
"""

from collections.abc import Mapping

from kvstress.metrics.alias import STARTED, Dialect, Found, Reading, counter, counter_of, gauge
from kvstress.metrics.parse import Page

_BLOCKS = gauge(
    "dynamo_component_total_blocks", "dynamo_component_kvstats_total_blocks", "dynamo_frontend_model_total_kv_blocks"
)
_PER_BLOCK = gauge("dynamo_frontend_model_kv_cache_block_size", most=True)


def _capacity(page: Page, found: Mapping[str, Found]) -> Reading:
    blocks, per_block = DYNAMO.look_up(page, _BLOCKS), DYNAMO.look_up(page, _PER_BLOCK)
    if blocks is None or per_block is None:
        return {}
    return {"kv_capacity": Found(value=blocks.value * per_block.value, name=blocks.name)}


DYNAMO = Dialect(
    name="dynamo",
    prefixes=("dynamo_", "kvbm_"),
    aliases={
        "kv_usage": gauge(
            "dynamo_component_gpu_cache_usage_percent", "dynamo_component_kvstats_gpu_cache_usage_percent", most=True
        ),
        "running": gauge("dynamo_frontend_inflight_requests"),
        "waiting": gauge("dynamo_frontend_queued_requests"),
        "prefix_hits": gauge("dynamo_frontend_cached_tokens_sum"),
        "prompt_tokens": gauge("dynamo_frontend_input_sequence_tokens_sum"),
        "generation_tokens": counter("dynamo_frontend_output_tokens"),
        "requests_completed": counter_of("dynamo_frontend_requests", "status", only=("success",)),
        "requests_failed": counter_of("dynamo_frontend_requests", "error_type", only=("internal", "not_implemented")),
        "process_started": STARTED,
    },
    derive=_capacity,
    split=(("dynamo_frontend_requests_total", "error_type"),),
)
