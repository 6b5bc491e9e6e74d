"""TGI: a token budget for the batch instead of a pool; nothing about prefixes, evictions or preemptions.

`batch_current_max_tokens` is what running requests may come to, which TGI reserves; over the budget it is the
usage. Counters carry no `_total`.
"""

from collections.abc import Mapping

from kvstress.metrics.alias import STARTED, Dialect, Found, Reading, counter, counter_of, gauge
from kvstress.metrics.parse import Page

_RESERVED = gauge("tgi_batch_current_max_tokens", "tgi_batch_total_tokens")


def _usage(page: Page, found: Mapping[str, Found]) -> Reading:
    reserved, capacity = TGI.look_up(page, _RESERVED), found.get("kv_capacity")
    if reserved is None or capacity is None or not capacity.value > 0:
        return {}
    return {"kv_usage": Found(value=reserved.value / capacity.value, name=reserved.name)}


TGI = Dialect(
    name="tgi",
    prefixes=("tgi_",),
    aliases={
        "kv_capacity": gauge("tgi_batch_max_total_tokens"),
        "running": gauge("tgi_batch_current_size"),
        "waiting": gauge("tgi_queue_size"),
        "prompt_tokens": gauge("tgi_request_input_length_sum"),
        "generation_tokens": gauge("tgi_request_generated_tokens_sum"),
        "requests_completed": counter("tgi_request_success"),
        # The others are refusals.
        "requests_failed": counter_of("tgi_request_failure", "err", without=("overloaded", "validation", "template")),
        "process_started": STARTED,
    },
    derive=_usage,
    split=(("tgi_request_failure", "err"),),
)
