"""Walks the format's types, so that errors, settings and the reference all read them and never a copy.

A node is what `msgspec.inspect` says about a type. Data decides which member of a tagged union
(a source) a node stands for, hence most functions take the data beside the node.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from msgspec import inspect

from kvstress.workload.format import Spec

Step = str | int
ROOT: inspect.Type = inspect.type_info(Spec)


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaf:
    """One scalar or list in a workload: its dotted `path` ("phases.warm.max_tokens"), the steps to it, and its type."""

    path: str
    steps: tuple[Step, ...]
    node: inspect.Type

    @property
    def short(self) -> str:
        """The last word of the path."""
        return self.path.rpartition(".")[2]


def bare(node: inspect.Type) -> inspect.Type:
    """`node` without its annotations and without the None of an optional value."""
    while True:
        if isinstance(node, inspect.Metadata):
            node = node.type
        elif isinstance(node, inspect.UnionType) and optional(node):
            node = next(member for member in node.types if not isinstance(member, inspect.NoneType))
        else:
            return node


def optional(node: inspect.Type) -> bool:
    """Whether `node` is one type or None."""
    inner = node.type if isinstance(node, inspect.Metadata) else node
    return isinstance(inner, inspect.UnionType) and any(isinstance(t, inspect.NoneType) for t in inner.types)


def unit(node: inspect.Type) -> str | None:
    """The unit in which people may type a value of `node`: tokens, seconds, or None."""
    while not isinstance(node, inspect.Metadata) or not node.extra:
        if isinstance(node, inspect.Metadata):
            node = node.type
        elif isinstance(node, inspect.UnionType) and optional(node):
            node = next(member for member in node.types if not isinstance(member, inspect.NoneType))
        else:
            return None
    return str(node.extra["unit"]) if "unit" in node.extra else None


def description(node: inspect.Type) -> str:
    """What the format says about `node`; empty when it says nothing."""
    schema = node.extra_json_schema if isinstance(node, inspect.Metadata) else None
    return str((schema or {}).get("description", ""))


def variants(node: inspect.Type) -> tuple[inspect.StructType, ...]:
    """The tables that `node` can be: one, several for a tagged union, none for anything else."""
    inner = bare(node)
    members = inner.types if isinstance(inner, inspect.UnionType) else (inner,)
    return tuple(member for member in members if isinstance(member, inspect.StructType))


def table(node: inspect.Type, data: Any) -> inspect.StructType | None:
    """The table that `node` is for `data`; None when `data` names no member of the union."""
    tables = variants(node)
    if len(tables) <= 1:
        return tables[0] if tables else None
    kind = data.get(tables[0].tag_field) if isinstance(data, Mapping) else None
    return next((one for one in tables if one.tag == kind), None)


def child(node: inspect.Type, data: Any, step: Step) -> inspect.Type | None:
    """The type one step below `node`; None when there is no such key."""
    inner = bare(node)
    if isinstance(inner, inspect.VarTupleType):
        return inner.item_type if isinstance(step, int) else None
    tables = variants(node)
    if tables and step == tables[0].tag_field:
        return inspect.LiteralType(values=tuple(sorted(str(one.tag) for one in tables)))
    chosen = table(node, data)
    return next((f.type for f in chosen.fields if f.encode_name == step), None) if chosen else None


def keys(struct: inspect.StructType) -> tuple[str, ...]:
    """Every key that the table knows."""
    tag = (struct.tag_field,) if struct.tag_field else ()
    return (*tag, *(f.encode_name for f in struct.fields))


def split(path: str) -> tuple[Step, ...]:
    """The steps of a path such as `phases[1].max_tokens`."""
    return tuple(int(index) if index else key for key, index in re.findall(r"([^.\[\]]+)|\[(\d+)\]", path))


def join(steps: tuple[Step, ...]) -> str:
    """The inverse of `split`."""
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps).removeprefix(".")


def at(node: inspect.Type, data: Any, steps: tuple[Step, ...]) -> tuple[inspect.Type | None, Any]:
    """The type and the value that `steps` lead to; (None, None) where they lead nowhere."""
    for step in steps:
        below = child(node, data, step)
        if below is None:
            return None, None
        node, data = below, _value(data, step)
    return node, data


def _value(data: Any, step: Step) -> Any:
    if isinstance(data, Mapping):
        return data.get(str(step))
    if isinstance(data, list | tuple) and isinstance(step, int) and step < len(data):
        return data[step]
    return None


def leaves(node: inspect.Type, data: Any, steps: tuple[Step, ...] = (), path: str = "") -> Iterator[Leaf]:
    """Every value that a workload like `data` has, lists of tables item by item and called by their names."""
    chosen = table(node, data)
    for field in chosen.fields if chosen else ():
        below, value = field.type, _value(data, field.encode_name)
        here, dotted = (*steps, field.encode_name), f"{path}.{field.encode_name}".removeprefix(".")
        inner = bare(below)
        if isinstance(inner, inspect.VarTupleType) and variants(inner.item_type):
            for index, item in enumerate(value or ()):
                yield from leaves(inner.item_type, item, (*here, index), f"{dotted}.{item['name']}")
        elif variants(below):
            yield from leaves(below, value, here, dotted)
        else:
            yield Leaf(path=dotted, steps=here, node=below)
