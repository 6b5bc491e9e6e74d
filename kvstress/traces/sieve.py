"""What of a recorded request passes into a normalised trace: a list of what may, because one of what may not forgets.

Captured bodies hold keys in places that nobody thinks of: headers of a remote tool, a signed address of a picture, a
field that some gateway added to a message. What is not listed here stays behind and is counted by its name.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from hashlib import sha256
from typing import Any

from kvstress.traces.row import Notes, Row

_MESSAGE = ("role", "content", "name", "tool_calls", "tool_call_id", "reasoning_content")
_FUNCTION = ("name", "description", "parameters", "strict")
_SCHEMA = ("name", "description", "schema", "strict")
_NAME = re.compile(r"[\w.:/#@ -]{0,120}")
_SCALAR = (str, int, float, bool)


def sieved(rows: Iterator[Row], notes: Notes) -> Iterator[Row]:
    """`rows` with only what may pass of their messages and of what else they ask for."""
    for row in rows:
        asked = {key: _ASKED.get(key, _plain)(value, notes) for key, value in row.asked.items()}
        yield replace(
            row,
            session=None if row.session is None else _name(row.session),
            scope=_name(row.scope),
            messages=tuple(_message(one, notes) for one in row.messages),
            asked={key: value for key, value in asked.items() if value is not None},
        )


def _name(given: str) -> str:
    """A session's name, or a digest of one that may be more than that, as an address with its query is."""
    return given if _NAME.fullmatch(given) else f"s-{sha256(given.encode()).hexdigest()[:16]}"


def _message(given: Mapping[str, Any], notes: Notes) -> Mapping[str, Any]:
    notes.keys(given, _MESSAGE)
    kept: dict[str, Any] = {key: given[key] for key in _MESSAGE if isinstance(given.get(key), str)}
    if "content" in given and not isinstance(given["content"], str):
        kept["content"] = _parts(given["content"], notes)
    calls = _calls(given.get("tool_calls"))
    return kept | ({"tool_calls": calls} if calls else {})


def _parts(content: Any, notes: Notes) -> list[dict[str, str]] | str | None:
    """The text parts of a content; pictures, sounds and files are addresses, often signed ones, or too long to keep."""
    if content is None:
        return None
    parts = content if isinstance(content, list) else [content]
    texts = [part if isinstance(part, str) else part.get("text") for part in parts if isinstance(part, str | Mapping)]
    found = [{"type": "text", "text": text} for text in texts if isinstance(text, str)]
    if len(found) < len(parts):
        notes.left_out["a part of a message that is not text"] += len(parts) - len(found)
    return found or ""


def _calls(given: Any) -> list[dict[str, Any]]:
    return [_call(one) for one in given if isinstance(one, Mapping)] if isinstance(given, list) else []


def _call(given: Mapping[str, Any]) -> dict[str, Any]:
    asked = given.get("function")
    function = {key: asked[key] for key in ("name", "arguments") if key in asked} if isinstance(asked, Mapping) else {}
    return {"id": str(given.get("id", "")), "type": "function", "function": function}


def _tools(given: Any, notes: Notes) -> list[dict[str, Any]] | None:
    """Tools that are functions. Those of other kinds name a server and what it is asked with."""
    tools = given if isinstance(given, list) else [given]
    functions = [one.get("function") for one in tools if isinstance(one, Mapping) and one.get("type") == "function"]
    found = [{"type": "function", "function": _kept(one, _FUNCTION)} for one in functions if isinstance(one, Mapping)]
    if len(found) < len(tools):
        notes.left_out["a tool that is not a function"] += len(tools) - len(found)
    return found or None


def _choice(given: Any, notes: Notes) -> Any:
    if isinstance(given, str):
        return given
    named = given.get("function") if isinstance(given, Mapping) else None
    return {"type": "function", "function": _kept(named, ("name",))} if isinstance(named, Mapping) else None


def _format(given: Any, notes: Notes) -> Any:
    if not isinstance(given, Mapping):
        return None
    schema = given.get("json_schema")
    kept = {"json_schema": _kept(schema, _SCHEMA)} if isinstance(schema, Mapping) else {}
    return {**_kept(given, ("type",)), **kept}


def _plain(given: Any, notes: Notes) -> Any:
    """A number, a word, or a list of them (`stop`)."""
    scalars = given if isinstance(given, list) else [given]
    return given if all(isinstance(one, _SCALAR) for one in scalars) else None


def _kept(given: Mapping[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    return {key: given[key] for key in names if given.get(key) is not None}


_ASKED: dict[str, Callable[[Any, Notes], Any]] = {"tools": _tools, "tool_choice": _choice, "response_format": _format}
