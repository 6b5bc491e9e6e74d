"""Requests beside the traffic: what the report needs to know that no step can tell.

A failed step alone does not say whether one request failed or the server died; a single short
prompt after the last step does. It is sent then and not before, because any request takes pages and
slots and would change what comes after it.
"""

from kvstress.core.plan import Origin, Request
from kvstress.workload import body
from kvstress.workload.format import Spec


def after(model: str | None, spec: Spec) -> tuple[Request, ...]:
    """What to send once the last step has ended: a short generation, or nothing if the workload forbids it."""
    return (_health(model),)[: spec.aside.max_requests] if spec.aside.when == "after" else ()


def _health(model: str | None) -> Request:
    return Request(
        id="aside.health",
        step=None,
        phase="health",
        origin=Origin.ASIDE,
        body=body.chat(body.user("Say yes."), model=model, max_tokens=1, temperature=0.0),
        recipe="health probe: one short prompt, one token",
    )
