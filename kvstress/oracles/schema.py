"""Does a JSON value fit a JSON schema? The part of the language that constrained decoding promises.

Keywords that are not known here are taken as met: the question is whether a server broke its promise, and a
checker that misreads an exotic keyword would say so of a server that kept it.
"""

from collections.abc import Callable, Iterator
from typing import Any

_TYPES: dict[str, Callable[[Any], bool]] = {
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
    "integer": lambda value: (
        not isinstance(value, bool) and (isinstance(value, int) or (isinstance(value, float) and value.is_integer()))
    ),
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
}
_DEEPEST = 64


def misfit(value: Any, schema: Any) -> str | None:
    """The first place where `value` does not fit `schema`, in words; None when it fits as far as is known."""
    return next(_misfits(value, schema, "$", 0), None)


def _misfits(value: Any, schema: Any, at: str, depth: int) -> Iterator[str]:
    if not isinstance(schema, dict) or depth > _DEEPEST or "$ref" in schema:
        return
    kinds = schema.get("type")
    names = [kinds] if isinstance(kinds, str) else kinds if isinstance(kinds, list) else []
    if names and not any(_TYPES.get(str(name), lambda value: True)(value) for name in names):
        yield f"{at} is no {' or '.join(map(str, names))}"
        return
    if "enum" in schema and value not in schema["enum"]:
        yield f"{at} is none of the allowed values"
    if "const" in schema and value != schema["const"]:
        yield f"{at} is not the constant"
    if isinstance(value, dict):
        yield from _object(value, schema, at, depth)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _misfits(item, schema.get("items"), f"{at}[{index}]", depth + 1)


def _object(value: dict[str, Any], schema: dict[str, Any], at: str, depth: int) -> Iterator[str]:
    known = schema.get("properties")
    known = known if isinstance(known, dict) else {}
    for name in schema.get("required") or ():
        if name not in value:
            yield f"{at} lacks {name}"
    for name, item in value.items():
        if name in known:
            yield from _misfits(item, known[name], f"{at}.{name}", depth + 1)
        elif schema.get("additionalProperties") is False and not schema.get("patternProperties"):
            yield f"{at} has {name}, which is not allowed"
