"""llama.cpp has no gauge for its KV cache; its `/slots` tells what the running requests hold.

An idle slot keeps its last prompt cached but does not say so, which is why the usage read here,
like vLLM's gauge, counts running requests only and is 0 in a cache full of reusable prompts.
"""

import json
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Slots:
    """What `/slots` says. `usage` (0–1) is None where several slots may share one cache.

    With one slot its context is the pool. With more, each slot's `n_ctx` is the whole pool when the cache is
    unified and its share when it is not, and the page does not say which. It is no `kv_capacity`: a slot holds one
    prompt, so prompts do not add up to it.
    """

    usage: float | None
    raw: dict[str, float] = field(default_factory=dict)


def read_slots(text: str) -> Slots | None:
    """The slots of a `/slots` answer; None when it is none."""
    try:
        answer = json.loads(text[:1_000_000])
    except (ValueError, RecursionError):
        return None
    if not isinstance(answer, list) or not answer or not all(isinstance(slot, dict) for slot in answer):
        return None
    contexts = [_count(slot.get("n_ctx")) for slot in answer]
    held = sum(_held(slot) for slot in answer)
    capacity = contexts[0] if len(contexts) == 1 and contexts[0] > 0 else None
    return Slots(
        usage=None if capacity is None else held / capacity,
        raw={"slots:count": float(len(answer)), "slots:n_ctx_max": max(contexts), "slots:tokens_running": held},
    )


def _held(slot: dict[str, Any]) -> float:
    """Tokens of a running request: its prompt and what it has generated."""
    if slot.get("is_processing") is not True:
        return 0.0
    after = slot.get("next_token")
    after = after[0] if isinstance(after, list) and after else after
    decoded = after.get("n_decoded") if isinstance(after, dict) else None
    return _count(slot.get("n_prompt_tokens")) + _count(decoded)


def _count(value: object) -> float:
    return float(value) if isinstance(value, int) and 0 <= value < 2**53 else 0.0
