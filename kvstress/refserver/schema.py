"""From a JSON schema to a script: what must be said literally, and where the model may fill in.

The script covers the part of JSON Schema that servers' users send most: nested objects, arrays, strings, numbers,
booleans, enums and local references. What it cannot promise to respect (`pattern`) it refuses.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kvstress.refserver.wire import BadRequest, compact_json

_DEEPEST = 16
_LONGEST_STRING = 64
_MAX_OPTIONS = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Literal:
    """Text that must come next."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """One of several texts."""

    options: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """Letters, digits and blanks, `least` to `most` characters; the model ends it."""

    least: int = 0
    most: int = _LONGEST_STRING


@dataclass(frozen=True, slots=True, kw_only=True)
class Digits:
    """One to `most` digits, without a leading zero."""

    most: int = 6


Part = Literal | Choice | Words | Digits


def script(schema: Any) -> tuple[Part, ...]:
    """The parts of a JSON text that satisfies `schema`, neighbouring literals joined. Raises BadRequest."""
    if not isinstance(schema, dict):
        raise BadRequest("the JSON schema must be an object", "response_format")
    joined: list[Part] = []
    for part in _value(schema, schema, 0):
        last = joined[-1] if joined else None
        if isinstance(part, Literal) and isinstance(last, Literal):
            joined[-1] = Literal(text=last.text + part.text)
        else:
            joined.append(part)
    return tuple(joined)


def _value(schema: Any, root: dict[str, Any], depth: int) -> list[Part]:
    if depth > _DEEPEST:
        raise BadRequest(f"the JSON schema is nested more than {_DEEPEST} deep", "response_format")
    if not isinstance(schema, dict):
        return [Literal(text="null")]
    if "$ref" in schema:
        return _value(_resolve(schema["$ref"], root), root, depth + 1)
    for union in ("anyOf", "oneOf", "allOf"):
        if isinstance(schema.get(union), list) and schema[union]:
            return _value(schema[union][0], root, depth + 1)
    if "const" in schema or "enum" in schema:
        return [_options(schema)]
    return _typed(schema, root, depth)


def _options(schema: dict[str, Any]) -> Part:
    values = [schema["const"]] if "const" in schema else schema["enum"]
    if not isinstance(values, list) or not 0 < len(values) <= _MAX_OPTIONS:
        raise BadRequest(f"enum must be a list of 1 to {_MAX_OPTIONS} values", "response_format")
    return Choice(options=tuple(compact_json(value) for value in values))


def _typed(schema: dict[str, Any], root: dict[str, Any], depth: int) -> list[Part]:
    kind = schema.get("type", "object" if "properties" in schema else "string")
    kind = kind[0] if isinstance(kind, list) and kind else kind
    match kind:
        case "object":
            return _object(schema, root, depth)
        case "array":
            return _array(schema, root, depth)
        case "string":
            return _string(schema)
        case "integer" | "number":
            return [_number(schema)]
        case "boolean":
            return [Choice(options=("true", "false"))]
        case "null":
            return [Literal(text="null")]
    raise BadRequest(f"the JSON schema has an unknown type {compact_json(kind)[:80]}", "response_format")


def _object(schema: dict[str, Any], root: dict[str, Any], depth: int) -> list[Part]:
    properties = schema.get("properties", {})
    if not isinstance(properties, dict):
        raise BadRequest("properties in the JSON schema must be an object", "response_format")
    parts: list[Part] = []
    for name, value in properties.items():
        parts.append(Literal(text=("," if parts else "{") + compact_json(name) + ":"))
        parts += _value(value, root, depth + 1)
    return [*parts, Literal(text="}" if parts else "{}")]


def _array(schema: dict[str, Any], root: dict[str, Any], depth: int) -> list[Part]:
    count = min(max(1, _bound(schema, "minItems", 1)), _bound(schema, "maxItems", 8), 8)
    parts: list[Part] = []
    for _ in range(count):
        parts += [Literal(text="," if parts else "["), *_value(schema.get("items", {}), root, depth + 1)]
    return [*parts, Literal(text="]" if parts else "[]")]


def _string(schema: dict[str, Any]) -> list[Part]:
    if "pattern" in schema:
        raise BadRequest("this server cannot promise a pattern in a JSON schema", "response_format")
    most = min(_bound(schema, "maxLength", _LONGEST_STRING), max(_LONGEST_STRING, _bound(schema, "minLength", 0)))
    return [Literal(text='"'), Words(least=_bound(schema, "minLength", 0), most=most), Literal(text='"')]


def _number(schema: dict[str, Any]) -> Part:
    low, high = schema.get("minimum"), schema.get("maximum")
    if low is None and high is None:
        return Digits()
    first = int(low) if isinstance(low, int | float) else int(high) - 9 if isinstance(high, int | float) else 0
    last = int(high) if isinstance(high, int | float) else first + 9
    return Choice(options=tuple(str(value) for value in range(first, min(last, first + 9) + 1)) or (str(first),))


def _bound(schema: dict[str, Any], name: str, default: int) -> int:
    value = schema.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else default


def _resolve(reference: Any, root: dict[str, Any]) -> Any:
    """A local reference such as #/$defs/Name."""
    found: Any = root
    for step in str(reference).removeprefix("#/").split("/") if reference != "#" else []:
        if not isinstance(found, dict) or step not in found:
            raise BadRequest(f"the JSON schema refers to {str(reference)[:80]}, which it does not define")
        found = found[step]
    return found
