"""Which shape an answer must have: free text, JSON for a schema, or the arguments of a tool call."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kvstress.refserver import chat, schema
from kvstress.refserver.schema import Part
from kvstress.refserver.wire import BadRequest, compact_json

_ANY_OBJECT = {"type": "object", "properties": {"answer": {"type": "string"}}}


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """The script of an answer, and the tool it calls if it calls one."""

    script: tuple[Part, ...] = ()
    tool: str | None = None


def shape_of(body: dict[str, Any]) -> Shape:
    """The shape a chat request asks for. Raises BadRequest."""
    tools = _tools(body.get("tools"))
    tool = _chosen_tool(body, tools)
    if tool is not None:
        return Shape(script=schema.script(tools[tool] or {"type": "object"}), tool=tool)
    return Shape(script=_format_script(body.get("response_format")))


def _format_script(wanted: Any) -> tuple[Part, ...]:
    if wanted is None:
        return ()
    kind = wanted.get("type") if isinstance(wanted, dict) else None
    if kind == "text":
        return ()
    if kind == "json_object":
        return schema.script(_ANY_OBJECT)
    if kind == "json_schema":
        described = wanted.get("json_schema")
        return schema.script(described.get("schema") if isinstance(described, dict) else None)
    raise BadRequest("response_format.type must be text, json_object or json_schema", "response_format")


def _tools(tools: Any) -> dict[str, Any]:
    """Parameter schemas by tool name."""
    if tools is None:
        return {}
    if not isinstance(tools, list):
        raise BadRequest("tools must be a list", "tools")
    found = {}
    for index, tool in enumerate(tools):
        function = tool.get("function") if isinstance(tool, dict) else None
        if not isinstance(function, dict) or not isinstance(function.get("name"), str):
            raise BadRequest(f"tools[{index}] must be a function with a name", "tools")
        found[function["name"]] = function.get("parameters")
    return found


def _chosen_tool(body: dict[str, Any], tools: dict[str, Any]) -> str | None:
    """The tool to call. Left to itself the model calls one whose name the last message mentions."""
    choice = body.get("tool_choice", "auto" if tools else "none")
    named = choice.get("function", {}).get("name") if isinstance(choice, dict) else None
    if named is not None or isinstance(choice, dict):
        if named not in tools:
            raise BadRequest(f"tool_choice names {compact_json(named)[:80]}, which is not among tools", "tool_choice")
        return str(named)
    if choice not in ("auto", "none", "required"):
        raise BadRequest("tool_choice must be auto, none, required or a function", "tool_choice")
    if choice == "none" or (choice == "required" and not tools):
        return None
    return _mentioned(body["messages"][-1], tools) or (next(iter(tools)) if choice == "required" else None)


def _mentioned(message: Any, tools: dict[str, Any]) -> str | None:
    if not isinstance(message, dict) or message.get("role") != "user":
        return None
    text = chat.message_text(message, "messages")
    return next((name for name in tools if name in text or name.replace("_", " ") in text), None)
