"""Reads a workload: TOML in, a typed `Spec` out, or one sentence about what is wrong and where.

Quantities that people type with a unit ("16k", "25m") become plain numbers here, once, so that
nothing downstream parses text.
"""

import re
import tomllib
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from msgspec import inspect

from kvstress.core import units
from kvstress.core.errors import UsageError
from kvstress.workload import mistakes, settings, shape
from kvstress.workload.format import Spec
from kvstress.workload.sources import Ramp, SpeedBench

__all__ = ["Ramp", "Spec", "SpeedBench", "builtins", "override", "parse", "restore"]

_READ: dict[str, Callable[[str], float]] = {"tokens": units.tokens, "seconds": units.duration}


def parse(text: str, origin: str) -> Spec:
    """The workload in TOML `text`; `origin` (a file name) is named first in the UsageError of anything wrong."""
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{origin}: not valid TOML: {_with_line(str(error), text)}") from error
    return _typed(data, origin)


def restore(parameters: Mapping[str, Any]) -> Spec:
    """The workload whose `builtins` a manifest holds as its parameters."""
    return _typed(dict(parameters), "manifest.json")


def builtins(spec: Spec) -> dict[str, Any]:
    """`spec` as JSON values, every default spelled out."""
    decoded: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(spec))
    return decoded


def override(spec: Spec, given: Mapping[str, str]) -> Spec:
    """`spec` with each setting of `--set KEY=VALUE` applied, in order.

    A key is a dotted path (`source.contexts`, `phases.warm.max_tokens`, `phases[1].max_tokens`) or its last
    word where only one path ends so. UsageError when no such thing can be set, or the value does not fit.
    """
    for key, text in given.items():
        data, origin = builtins(spec), f"--set {key}={text}"
        leaf = settings.find(data, key, origin)
        settings.assign(data, leaf.steps, settings.value(leaf.node, text))
        spec = _typed(data, origin)
    return spec


def _typed(data: dict[str, Any], origin: str) -> Spec:
    try:
        return msgspec.convert(_plain(shape.ROOT, data, (), data, origin), Spec)
    except msgspec.ValidationError as error:
        raise UsageError(f"{origin}: {mistakes.sentence(str(error), data)}") from error


def _plain(node: inspect.Type, data: Any, steps: tuple[shape.Step, ...], whole: Any, origin: str) -> Any:
    """`data` with quantities as numbers; anything of the wrong shape is left for the type check to name."""
    unit = shape.unit(node)
    if isinstance(data, str) and unit is not None:
        try:
            return _READ[unit](data)
        except (UsageError, OverflowError) as error:
            raise UsageError(f"{origin}: {mistakes.wrong(steps, whole)}") from error
    if isinstance(data, list | tuple):
        pairs = [(shape.child(node, data, index), item) for index, item in enumerate(data)]
        return [_plain(n, v, (*steps, i), whole, origin) if n else v for i, (n, v) in enumerate(pairs)]
    if isinstance(data, Mapping):
        below = {key: shape.child(node, data, key) for key in data}
        return {k: _plain(n, data[k], (*steps, k), whole, origin) if n else data[k] for k, n in below.items()}
    return data


def _with_line(said: str, text: str) -> str:
    """tomllib says "(at end of document)" where a person wants the line's number too."""
    last = text.count("\n") + 1
    return re.sub(r"at end of document", f"at line {last}, the end of the file", said)
