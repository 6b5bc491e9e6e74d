"""LMDeploy: a usage share, and a capacity only where its configuration names the number of blocks."""

import math
from collections.abc import Mapping

from kvstress.metrics.alias import STARTED, Dialect, Found, Reading, counter, gauge, number
from kvstress.metrics.parse import Page, Series

_CONFIG = "lmdeploy:backend_config_info"


def _capacity(page: Page, found: Mapping[str, Found]) -> Reading:
    """Tokens of all blocks; the default configuration says 0 blocks, which means "as many as fit"."""
    sizes = [_tokens(series) for series in page.series.get(_CONFIG, ())]
    known = [size for size in sizes if size > 0]
    return {"kv_capacity": Found(value=sum(known), name=_CONFIG)} if known and len(known) == len(sizes) else {}


def _tokens(series: Series) -> float:
    blocks = number(series.labels.get("num_gpu_blocks"))
    size = number(series.labels.get("block_size", series.labels.get("cache_block_seq_len")))
    tokens = blocks * size
    return tokens if math.isfinite(tokens) else 0.0


LMDEPLOY = Dialect(
    name="lmdeploy",
    prefixes=("lmdeploy:",),
    aliases={
        "kv_usage": gauge("lmdeploy:gpu_cache_usage_perc", most=True),
        "running": gauge("lmdeploy:num_requests_running"),
        "waiting": gauge("lmdeploy:num_requests_waiting"),
        "prefix_hits": counter("lmdeploy:cached_tokens"),
        "prompt_tokens": counter("lmdeploy:prompt_tokens"),
        "generation_tokens": counter("lmdeploy:generation_tokens"),
        # Gauges by type, running totals by meaning.
        "requests_completed": gauge("lmdeploy:num_requests_succeeded", "lmdeploy:request_success_total"),
        "requests_failed": gauge("lmdeploy:num_requests_failed"),
        "process_started": STARTED,
    },
    derive=_capacity,
)
