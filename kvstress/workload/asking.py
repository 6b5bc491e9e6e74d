"""What a phase asks for beside its prompt: an answer of a promised shape, and when its connection is closed.

The schema is small on purpose: a promise that any server with constrained decoding can keep tells more by being
broken than an exotic one.
"""

from typing import Any

from kvstress.core.plan import Cancel, CancelAt
from kvstress.workload.format import Phase

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"done": {"type": "boolean"}, "level": {"enum": ["low", "high"]}, "count": {"type": "integer"}},
    "required": ["done", "level", "count"],
    "additionalProperties": False,
}
_TOOL = "report_state"

# A client cannot see a queue; by these times a request has left, and a long one is being read.
_AFTER = {CancelAt.QUEUED: 0.01, CancelAt.PREFILL: 0.1}
_CHUNKS = {CancelAt.FIRST_CHUNK: 1, CancelAt.DECODE: 4}


def shape(phase: Phase) -> dict[str, Any]:
    """The keys of a request body that ask for what is the phase's own; none for plain free text."""
    asked: dict[str, Any] = {key: value for key, value in (("n", phase.n), ("stop", phase.stop)) if value is not None}
    if phase.top_logprobs is not None:
        asked |= {"logprobs": True, "top_logprobs": phase.top_logprobs}
    return asked | _promised(phase)


def _promised(phase: Phase) -> dict[str, Any]:
    if phase.shape == "schema":
        promised = {"name": "state", "strict": True, "schema": SCHEMA}
        return {"response_format": {"type": "json_schema", "json_schema": promised}}
    if phase.shape == "tool":
        function = {"name": _TOOL, "description": "Report the state.", "parameters": SCHEMA}
        return {
            "tools": [{"type": "function", "function": function}],
            "tool_choice": {"type": "function", "function": {"name": _TOOL}},
        }
    return {}


def cancel(phase: Phase) -> Cancel | None:
    """When the phase's connection is closed; None when it is not."""
    if phase.cancel is None:
        return None
    at = CancelAt(phase.cancel)
    return cancelled(at) if phase.cancel_after is None else Cancel(at=at, after=phase.cancel_after)


def cancelled(at: CancelAt) -> Cancel:
    """The cancellation that is meant to find a request at that place."""
    return Cancel(at=at, after=_AFTER.get(at), chunks=_CHUNKS.get(at))
