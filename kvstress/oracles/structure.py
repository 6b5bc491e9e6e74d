"""STRUCT: does an answer of a promised shape have it?

Compares the content with the `json_schema` that was asked for, and the call with the tool that was forced: the name is
the forced one and its arguments parse and fit its parameters. Source: what the request asked for, the assembled answer.

Threshold: one is enough, once this server has kept the same promise at least once; where it never did, the shape may
not be supported, and the finding says so and is INCONCLUSIVE. JSON mode without a schema, and free tool choice, promise
less: they count only when answers were right and begin to be wrong (`shift.py`).
Noisy when: the cap on tokens cuts the answer (`length`: not looked at); when a grammar allows endless white space.
"""

import json
from collections.abc import Mapping
from typing import Any

from kvstress.core.events import Event, RequestSent
from kvstress.core.exchange import Choice, Exchange
from kvstress.core.manifest import Manifest
from kvstress.core.outcome import Outcome
from kvstress.core.verdict import Finding, Verdict
from kvstress.oracles.oracle import found, options
from kvstress.oracles.schema import misfit
from kvstress.oracles.shift import Shift

NAME = "STRUCT"


class Struct:
    """Keeps which promises were ever kept, and the run of right answers where less is promised."""

    def __init__(self, manifest: Manifest) -> None:
        del manifest
        self._kept: set[str] = set()
        self._loose = Shift()

    def see(self, event: Event, asked: RequestSent | None) -> tuple[Finding, ...]:
        if not isinstance(event, Exchange) or asked is None or event.outcome is not Outcome.COMPLETED:
            return ()
        wanted = options(asked)
        promise = _promise(wanted)
        if promise is None or any(choice.finish_reason == "length" for choice in event.choices):
            return ()
        wrong = next((fault for choice in event.choices if (fault := _fault(promise, wanted, choice))), None)
        if promise in ("json", "auto"):
            return self._less(wrong, asked)
        if wrong is None:
            self._kept.add(promise)
            return ()
        kept = promise in self._kept
        doubt = "" if kept else "; this server never gave one that fits, so it may not support this"
        verdict = Verdict.FAIL if kept else Verdict.INCONCLUSIVE
        return (found(NAME, verdict, promise, f"{wrong}{doubt}", asked=asked, measured=wrong, limit="as promised"),)

    def _less(self, wrong: str | None, asked: RequestSent) -> tuple[Finding, ...]:
        if not self._loose.add(wrong is not None):
            return ()
        share = f"{self._loose.bad} of the last {self._loose.since}, none of {self._loose.clean} before"
        return (found(NAME, Verdict.FAIL, "became invalid", f"{wrong} ({share})", asked=asked, measured=share),)


def _promise(wanted: Mapping[str, Any]) -> str | None:
    """What was promised: schema, tool (forced), json or auto; None for free text."""
    shape, choice = wanted.get("response_format"), wanted.get("tool_choice")
    kind = shape.get("type") if isinstance(shape, dict) else None
    if kind == "json_schema":
        return "schema"
    tools = wanted.get("tools")
    if not isinstance(tools, list) or not tools:
        return "json" if kind == "json_object" else None
    if isinstance(choice, dict) or choice == "required":
        return "tool"
    return None if choice == "none" else "auto"


def _fault(promise: str, wanted: Mapping[str, Any], choice: Choice) -> str | None:
    if promise in ("tool", "auto"):
        return _tool_fault(promise, wanted, choice)
    try:
        value = json.loads(choice.text)
    except (ValueError, RecursionError) as why:
        return f"the promised JSON does not parse: {why}"
    schema = wanted["response_format"].get("json_schema")
    where = misfit(value, schema.get("schema")) if promise == "schema" and isinstance(schema, dict) else None
    return f"the JSON does not fit its schema: {where}" if where else None


def _tool_fault(promise: str, wanted: Mapping[str, Any], choice: Choice) -> str | None:
    try:
        calls = json.loads(choice.tool_calls) if choice.tool_calls else []
    except ValueError:
        return None
    if not calls:
        return "the forced tool was not called" if promise == "tool" else None
    tools = dict(map(_tool, wanted["tools"]))
    forced = _forced(wanted["tool_choice"]) if promise == "tool" else None
    for call in calls:
        if call["name"] not in tools or (forced and call["name"] != forced):
            return f"a tool {call['name'][:40]!r} was called that was not to be"
        try:
            arguments = json.loads(call["arguments"] or "{}")
        except (ValueError, RecursionError) as why:
            return f"the tool's arguments do not parse: {why}"
        if where := misfit(arguments, tools[call["name"]]):
            return f"the tool's arguments do not fit: {where}"
    return None


def _forced(choice: Any) -> str | None:
    """The name of the tool that had to be called, None when any may be."""
    function = choice.get("function") if isinstance(choice, dict) else None
    return function.get("name") if isinstance(function, dict) else None


def _tool(tool: Any) -> tuple[str, Any]:
    function = tool.get("function") if isinstance(tool, dict) else None
    return (str(function.get("name")), function.get("parameters")) if isinstance(function, dict) else ("", None)
