"""repro.json: a reproducer as JSON, readable by people, by `kvstress replay` and by whoever writes his own script.

In a body, `{"$text": "t3"}` stands for the text of that name under `texts`; generated text is told by its recipe,
because sixteen thousand tokens of filler say no more than the five words that make them.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from kvstress.core.case import Piece, mapped
from kvstress.core.errors import CannotJudgeError, UsageError
from kvstress.core.repro import REPRO_VERSION, Reproducer
from kvstress.store import codec, disk

FILE = "repro.json"
_TEXT = "$text"


class _Version(msgspec.Struct):
    schema_version: int
    case: dict[str, Any]


def built(repro: Reproducer) -> dict[str, Any]:
    """The content of repro.json as JSON values, defaults that say nothing left out."""
    values: dict[str, Any] = msgspec.to_builtins(repro)
    steps = zip(values["case"]["steps"], repro.case.steps, strict=True)
    for told, step in steps:
        for one, request in zip(told["requests"], step.requests, strict=True):
            one["body"] = mapped(request.body, lambda leaf: {_TEXT: leaf.name} if isinstance(leaf, Piece) else leaf)
        told["requests"] = [_without_nothing(one) for one in told["requests"]]
    values["case"]["steps"] = [_without_nothing(step) for step in values["case"]["steps"]]
    values["case"]["texts"] = {name: _without_nothing(text) for name, text in values["case"]["texts"].items()}
    return values


def _without_nothing(values: Mapping[str, Any]) -> dict[str, Any]:
    # A step of None says that a request belongs to none, and a reader asks for it.
    said = {key: value for key, value in values.items() if value is not None and value != "" and value is not False}
    return {**said, "step": None} if "step" in values and values["step"] is None else said


def text(repro: Reproducer) -> bytes:
    """The bytes of repro.json."""
    return msgspec.json.format(msgspec.json.encode(codec.spelt(built(repro))), indent=2) + b"\n"


def read(path: Path) -> Reproducer:
    """The reproducer in `path`, a repro.json or the directory that holds one.

    Raises UsageError when there is none, CannotJudgeError when it is damaged or of a newer kvstress.
    """
    file = path / FILE if path.is_dir() else path
    if not file.is_file():
        raise UsageError(f"{path} is no reproducer: name a {FILE}, or the directory that kvstress shrink wrote")
    with disk.reading(file):
        content = file.read_bytes()
    try:
        version = msgspec.json.decode(content, type=_Version).schema_version
        if version > REPRO_VERSION:
            raise CannotJudgeError(f"{file} is of a newer kvstress (schema version {version}): use that one")
        values = msgspec.json.decode(content)
        for step in values["case"]["steps"]:
            for request in step["requests"]:
                request["body"] = _pieced(request["body"])
        return msgspec.convert(values, Reproducer)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, KeyError, TypeError) as problem:
        raise CannotJudgeError(f"{file} is damaged ({problem}): write it again with kvstress shrink") from problem


def _pieced(value: Any) -> Any:
    if isinstance(value, dict):
        if set(value) == {_TEXT} and isinstance(value[_TEXT], str):
            return Piece(name=value[_TEXT])
        return {key: _pieced(item) for key, item in value.items()}
    return [_pieced(item) for item in value] if isinstance(value, list) else value
