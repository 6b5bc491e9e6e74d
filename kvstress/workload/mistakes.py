"""Turns what is wrong with a workload file into one sentence that names the place and what belongs there.

msgspec stops at the first fault and says where, in terms of types; a person needs the value that
stood there and what would have been right, so the sentence is built anew from the path.
"""

import difflib
import json
import re
from collections.abc import Iterable
from typing import Any

from msgspec import inspect

from kvstress.workload import shape

_PATH = re.compile(r"^(?P<said>.*?)(?: - at `\$(?P<path>.*)`)?$", re.DOTALL)
_QUOTED = re.compile(r"(unknown|missing required) field `(?P<key>.*)`$", re.DOTALL)


def sentence(said: str, data: Any) -> str:
    """The sentence for msgspec's message about `data`: `phases[1].max_tokens: expected a positive integer, got "x"`."""
    match = _PATH.match(said)
    if match is None:
        return said
    steps, said = shape.split(match["path"] or ""), match["said"]
    named = _QUOTED.search(said)
    if named and named[1] == "unknown":
        return _unknown(steps, named["key"], data)
    if named:
        return _missing((*steps, named["key"]), data)
    if said.startswith(("Expected ", "Invalid ")):
        return _expected(steps, said, data)
    return _at(steps, said)


def wrong(steps: tuple[shape.Step, ...], data: Any) -> str:
    """The sentence for a value whose type or text is not what belongs at `steps`."""
    node, value = shape.at(shape.ROOT, data, steps)
    return _at(steps, f"expected {expected(node)}, got {show(value)}")


def nearest(word: str, known: Iterable[str]) -> str:
    """`; did you mean "lanes"?`, or the list of what is known when nothing is near."""
    names = list(known)
    near = difflib.get_close_matches(word, names, n=1, cutoff=0.6)
    if near:
        return f'; did you mean "{near[0]}"?'
    return f"; known are {', '.join(names)}" if names else ""


def show(value: Any) -> str:
    """`value` as JSON, cut to 60 characters."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 60 else f"{text[:57]}…"


def expected(node: inspect.Type | None) -> str:
    """What belongs where `node` is the type, in words."""
    inner = shape.bare(node) if node is not None else None
    match inner:
        case inspect.IntType():
            return "a positive integer" if inner.ge == 1 else f"an integer of at least {inner.ge}"
        case inspect.FloatType():
            return "a duration such as 25m" if shape.unit(node or inner) == "seconds" else _number(inner)
        case inspect.LiteralType():
            return "one of " + ", ".join(f'"{value}"' for value in inner.values)
        case inspect.BoolType():
            return "true or false"
        case inspect.StrType():
            return _text(inner)
        case inspect.VarTupleType():
            return f"a {'non-empty ' if inner.min_length else ''}list"
    return "a table"


def _number(node: inspect.FloatType) -> str:
    low = f"above {node.gt:g}" if node.gt is not None else f"of at least {node.ge:g}"
    return f"a number {low} and at most {node.le:g}"


def _text(node: inspect.StrType) -> str:
    if node.pattern is None:
        return "non-empty text" if node.min_length else "text"
    return (
        "a name in capitals" if "A-Z" in node.pattern else "a name of lower-case letters, digits, - and _, 40 at most"
    )


def _unknown(steps: tuple[shape.Step, ...], key: str, data: Any) -> str:
    node, value = shape.at(shape.ROOT, data, steps)
    table = shape.table(node, value) if node is not None else None
    return _at(steps, f"unknown key {show(key)}{nearest(key, shape.keys(table) if table else ())}")


def _missing(steps: tuple[shape.Step, ...], data: Any) -> str:
    node, _ = shape.at(shape.ROOT, data, steps)
    return _at(steps, f"missing; expected {expected(node)}")


def _expected(steps: tuple[shape.Step, ...], said: str, data: Any) -> str:
    bound = re.search(r"<= ([\d.e+]+)$", said)
    if bound is None:
        return wrong(steps, data)
    _, value = shape.at(shape.ROOT, data, steps)
    return _at(steps, f"expected at most {float(bound[1]):,.15g}, got {show(value)}")


def _at(steps: tuple[shape.Step, ...], words: str) -> str:
    return f"{shape.join(steps)}: {words}" if steps else words
