"""OpenTelemetry spans with GenAI attributes: a file of `spans`, or OTLP's `resourceSpans`.

Attributes moved and were renamed; both spellings of each are read. A span without input messages asked nothing that
can be sent again (a tool call, an agent's own span) and is left out, counted.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO

from kvstress.traces.row import Notes, Row, count, items, unix

_SPANS = ("spans.item", "resourceSpans.item.scopeSpans.item.spans.item")
_SESSIONS = ("gen_ai.conversation.id", "exgentic.session.id", "session.id")
_ASKED = {
    "gen_ai.request.temperature": "temperature",
    "gen_ai.request.top_p": "top_p",
    "gen_ai.request.seed": "seed",
    "gen_ai.request.stop_sequences": "stop",
}


def read(file: BinaryIO, notes: Notes) -> Iterator[Row]:
    """Rows of the spans that have input messages, in the file's order. `number` is the span's place."""
    notes.told |= {"history": "cumulative where a prompt begins with an earlier one", "times": "span starts"}
    number = 0
    for prefix in _SPANS:
        file.seek(0)
        for span in items(file, prefix, notes):
            number += 1
            row = _row(span, number, notes) if isinstance(span, Mapping) else None
            if row is not None:
                yield row


def _row(span: Mapping[str, Any], number: int, notes: Notes) -> Row | None:
    told = _attributes(span.get("attributes"))
    given = _parsed(told.get("gen_ai.input.messages"))
    if not isinstance(given, list) or not given:
        notes.left_out["a span without gen_ai.input.messages"] += 1
        return None
    notes.unknown.update(key[:80] for key in told if not key.startswith("gen_ai.") and key not in _SESSIONS)
    system = _parsed(told.get("gen_ai.system_instructions"))
    before = [{"role": "system", "content": _text(system)}] if system else []
    asked = {name: told[key] for key, name in _ASKED.items() if told.get(key) is not None}
    tools = _parsed(told.get("gen_ai.tool.definitions"))
    session = next((str(told[key]) for key in _SESSIONS if told.get(key)), None)
    start = next((span[key] for key in ("start_time", "startTimeUnixNano") if span.get(key)), None)
    return Row(
        number=number,
        session=session,
        whole=True,
        messages=(*before, *(message for one in given for message in _messages(one, number, notes))),
        max_tokens=count(told.get("gen_ai.usage.output_tokens") or told.get("gen_ai.usage.completion_tokens"))
        or count(told.get("gen_ai.request.max_tokens")),
        at=unix(start),
        asked={**asked, **({"tools": tools} if isinstance(tools, list) and tools else {})},
    )


def _attributes(given: Any) -> dict[str, Any]:
    """An object of attributes, or OTLP's list of keys and typed values."""
    if isinstance(given, Mapping):
        return dict(given)
    pairs = [one for one in given or () if isinstance(one, Mapping) and isinstance(one.get("value"), Mapping)]
    return {str(one.get("key")): next(iter(one["value"].values()), None) for one in pairs}


def _parsed(value: Any) -> Any:
    try:
        return json.loads(value) if isinstance(value, str) else value
    except ValueError:
        return None


def _text(parts: Any) -> str:
    if isinstance(parts, str):
        return parts
    found = [one.get("content", "") if isinstance(one, Mapping) else str(one) for one in parts or ()]
    return "\n".join(str(one) for one in found if one)


def _messages(one: Any, number: int, notes: Notes) -> Iterator[Mapping[str, Any]]:
    """A message as chat completions spell it; each tool response in it is a message of its own."""
    if not isinstance(one, Mapping) or not isinstance(one.get("role"), str):
        notes.refuse(number, "each message needs a role")
    parts = one.get("parts")
    if not isinstance(parts, list):
        yield {"role": one["role"], "content": _text(one.get("content"))}
        return
    calls = [part for part in parts if isinstance(part, Mapping) and part.get("type") == "tool_call"]
    answers = [part for part in parts if isinstance(part, Mapping) and part.get("type") == "tool_call_response"]
    words = _text([part for part in parts if part not in calls and part not in answers])
    for part in answers:
        result = part.get("result", part.get("response"))
        content = result if isinstance(result, str) else json.dumps(result)
        yield {"role": "tool", "tool_call_id": str(part.get("id", "")), "content": content}
    if words or calls or not answers:
        yield {"role": one["role"], "content": words, **({"tool_calls": list(map(_call, calls))} if calls else {})}


def _call(part: Mapping[str, Any]) -> dict[str, Any]:
    given = part.get("arguments")
    arguments = given if isinstance(given, str) else json.dumps(given)
    return {
        "id": str(part.get("id", "")),
        "type": "function",
        "function": {"name": str(part.get("name", "")), "arguments": arguments},
    }
