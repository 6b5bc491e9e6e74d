"""The reference of the workload format, written from the types that read it, so that it cannot fall behind.

`workloads/README.md` is what `markdown` returns, and a test keeps the two equal.
"""

from collections.abc import Iterator, Mapping

from msgspec import NODEFAULT, Struct, inspect, to_builtins

from kvstress.workload import mistakes, shape
from kvstress.workload.format import Spec

_INTRO = """\
# Workload files

A workload is a TOML file: what to send, in which order, when to stop, and what must have happened for a run to
mean anything. `kvstress run --workload NAME` takes one of those here, `--workload FILE.toml` one of your own. An
unknown key or a wrong value is refused with its path inside the file, as in
`phases[1].max_tokens: expected a positive integer, got "x"`.

Token counts are decimal and may be written with k (`"16k"` is 16,000 of the server's own tokens); durations are
`"90s"`, `"25m"`, `"1.5h"` or a plain number of seconds. The same file, seed and sizing give the same bytes on every
machine.

Any value can be set for one run, by its path or by the last word of it where only one path ends so; a phase goes by
its name or its place, and a list is given with commas:

    kvstress run … --workload speedbench --set contexts=2k,4k --set max_steps=20 --set phases.warm.max_tokens=128
"""
_OUTRO = "\nThis page is generated from the types in `kvstress/workload/format.py`; a test fails when it is not.\n"


def markdown(shipped: Mapping[str, Spec]) -> str:
    """The page: an introduction, the `shipped` workloads by file name, and one table of keys per TOML table."""
    lines = [_INTRO, "| file | hunts |", "|---|---|"]
    lines += [f"| `{file}` | {spec.hunts} |" for file, spec in sorted(shipped.items())]
    lines += ["", "## Keys at the top"]
    return "\n".join([*lines, *_sections(shape.ROOT, "")]) + "\n" + _OUTRO


def _sections(node: inspect.Type, path: str) -> Iterator[str]:
    """The table of a node's own keys, then a section for each table below it."""
    for struct in shape.variants(node):
        if struct.tag is not None:
            yield f'\n### `kind = "{struct.tag}"`\n\n{_summary(struct)}'
        yield from _keys(struct)
        for field in struct.fields:
            inner = shape.bare(field.type)
            listed = isinstance(inner, inspect.VarTupleType) and bool(shape.variants(inner.item_type))
            below = inner.item_type if listed and isinstance(inner, inspect.VarTupleType) else field.type
            if shape.variants(below):
                name = f"{path}.{field.encode_name}".removeprefix(".")
                yield f"\n## `{'[[' if listed else '['}{name}{']]' if listed else ']'}`"
                yield _heading(field.type, below)
                yield from _sections(below, name)


def _heading(node: inspect.Type, below: inspect.Type) -> str:
    tables = shape.variants(below)
    kinds = ", ".join(f'`"{one.tag}"`' for one in tables if one.tag)
    said = shape.description(node) if kinds else _summary(tables[0])
    return f"\n{said[0].upper()}{said[1:].rstrip('.')}{f'; `kind` is one of {kinds}' if kinds else ''}."


def _summary(struct: inspect.StructType) -> str:
    return " ".join((struct.cls.__doc__ or "").split())


def _keys(struct: inspect.StructType) -> Iterator[str]:
    rows = [_row(field) for field in struct.fields if not _is_section(field.type)]
    if rows:
        yield from ("", "| key | value | default | meaning |", "|---|---|---|---|", *rows)


def _is_section(node: inspect.Type) -> bool:
    inner = shape.bare(node)
    return bool(shape.variants(inner.item_type if isinstance(inner, inspect.VarTupleType) else node))


def _row(field: inspect.Field) -> str:
    cells = (f"`{field.encode_name}`", _value(field.type), _default(field), shape.description(field.type))
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _value(node: inspect.Type) -> str:
    inner = shape.bare(node)
    if isinstance(inner, inspect.VarTupleType):
        return f"list: each {_value(inner.item_type)}"
    if shape.unit(node) == "tokens":
        return 'tokens, such as `"16k"`'
    return mistakes.expected(node)


def _default(field: inspect.Field) -> str:
    if field.required:
        return "required"
    default = field.default_factory() if field.default is NODEFAULT else field.default
    if default is None:
        return "none"
    return f"`{mistakes.show(to_builtins(default) if isinstance(default, Struct) else default)}`"
