"""Finds what `--set KEY=VALUE` means in a workload, and reads VALUE as the type that stands there.

Short names serve people ("max_steps"), paths serve scripts ("stop.max_steps"); a short name that
two paths end in is refused with both, because a guess would silently run another workload.
"""

import tomllib
from typing import Any

from msgspec import inspect

from kvstress.core.errors import UsageError
from kvstress.workload import mistakes, shape

_TRUE = {"true", "yes", "on", "1"}
_FALSE = {"false", "no", "off", "0"}


def find(data: dict[str, Any], key: str, origin: str) -> shape.Leaf:
    """The one value of the workload `data` that `key` names."""
    leaves = [*shape.leaves(shape.ROOT, data)]
    if key.startswith("gate.") and len(key) > 5:
        return shape.Leaf(path=key, steps=("gate", key[5:]), node=inspect.AnyType())
    exact = [leaf for leaf in leaves if key in (leaf.path, shape.join(leaf.steps))]
    ending = exact or [leaf for leaf in leaves if leaf.short == key or leaf.path.endswith(f".{key}")]
    if len(ending) == 1:
        return ending[0]
    paths = [leaf.path for leaf in ending or leaves]
    if ending:
        raise UsageError(f'{origin}: "{key}" could be any of {", ".join(paths)}; give the whole path')
    hint = mistakes.nearest(key, [*paths, *(leaf.short for leaf in leaves)]) if _near(key, leaves) else ""
    raise UsageError(f'{origin}: nothing is called "{key}"{hint} (can be set: {", ".join(settable(data))})')


def settable(data: dict[str, Any]) -> tuple[str, ...]:
    """Every path of the workload `data` that can be set."""
    return tuple(leaf.path for leaf in shape.leaves(shape.ROOT, data))


def value(node: inspect.Type, text: str) -> Any:
    """`text` as a raw value for `node`; text that does not fit is returned as it is, for the type check to name."""
    inner = shape.bare(node)
    if shape.optional(node) and text.lower() in ("", "none", "null"):
        return None
    if shape.unit(node) is not None:
        return text
    match inner:
        case inspect.VarTupleType():
            return [value(inner.item_type, item) for item in _items(text)]
        case inspect.BoolType():
            return text.lower() in _TRUE if text.lower() in _TRUE | _FALSE else text
        case inspect.IntType() | inspect.FloatType():
            return _number(text, float if isinstance(inner, inspect.FloatType) else int)
        case inspect.StrType() | inspect.LiteralType():
            return text
    return _toml(text)


def assign(data: dict[str, Any], steps: tuple[shape.Step, ...], new: Any) -> None:
    """Put `new` where `steps` lead in `data`, in place."""
    place: Any = data
    for step in steps[:-1]:
        place = place[step]
    place[steps[-1]] = new


def _near(key: str, leaves: list[shape.Leaf]) -> bool:
    return "did you mean" in mistakes.nearest(key, [name for leaf in leaves for name in (leaf.path, leaf.short)])


def _items(text: str) -> list[str]:
    inside = text.strip().removeprefix("[").removesuffix("]")
    return [item.strip().strip("\"'") for item in inside.split(",") if item.strip()]


def _number(text: str, read: type[int] | type[float]) -> Any:
    try:
        return read(text)
    except ValueError:
        return text


def _toml(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (tomllib.TOMLDecodeError, KeyError):
        return text
