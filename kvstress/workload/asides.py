"""Requests beside the traffic: what oracles need to know that no step can tell.

Which of them a workload permits is decided here, from its file alone; the harness sends them. None is sent before the
last step has ended unless the workload says so, because any request takes pages and slots and would change what
comes after it.
"""

from kvstress.core.plan import Origin, Request
from kvstress.core.sizing import Sizing
from kvstress.workload import body, text
from kvstress.workload.format import Spec

# Of the pool: enough that a leak of a few prompts shows, and room for what a server keeps beside the prompt.
_MOST_OF_IT = 0.9
_SPARE = 64


def health_rounds(spec: Spec, most: int) -> int:
    """How often the health probe may be asked: as often as asides are allowed, `most` at most."""
    return min(most, spec.aside.max_requests) if spec.aside.when != "never" else 0


def health(model: str | None, number: int) -> Request:
    """A short generation: a failed step alone does not say whether one request failed or the server died."""
    return Request(
        id="aside.health" + (f".{number}" if number else ""),
        step=None,
        phase="health",
        origin=Origin.ASIDE,
        body=body.chat(body.user("Say yes."), model=model, max_tokens=1, temperature=0.0),
        recipe="health probe: one short prompt, one token",
    )


def capacity(
    model: str | None, spec: Spec, seed: int, sizing: Sizing, *, pool: float | None, context: int | None
) -> Request | None:
    """A prompt of nine tenths of the `pool` (tokens), or None where that is unknown or longer than the `context`."""
    if not spec.aside.capacity or spec.aside.when == "never" or pool is None or sizing.how == "assumed":
        return None
    tokens = int(pool * _MOST_OF_IT)
    if tokens < _SPARE or (context is not None and tokens > context - _SPARE):
        return None
    units = sizing.units(tokens)
    prompt = text.prompt(f"{spec.name}/{seed}/capacity", "?", units)
    return Request(
        id="aside.capacity",
        step=None,
        phase="capacity",
        origin=Origin.ASIDE,
        body=body.chat(body.user(prompt), model=model, max_tokens=1, temperature=0.0),
        recipe=f"generated text {spec.name}/{seed}/capacity units={units}",
        tokens=tokens,
    )
