"""llama.cpp's server: no gauge of its KV cache since `kv_cache_usage_ratio` went; `/slots` tells some of it."""

from collections.abc import Mapping

from kvstress.metrics.alias import STARTED, Dialect, Found, Reading, counter, gauge
from kvstress.metrics.parse import Page


def _all_prompt_tokens(page: Page, found: Mapping[str, Found]) -> Reading:
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
        "process_started": STARTED,
    },
    derive=_all_prompt_tokens,
)
