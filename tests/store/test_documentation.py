"""reports/README.md is the one place where columns and fields are described; here it is held against the code."""

import re
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, get_args, get_origin, get_type_hints

import pytest

from kvstress.core.events import ServerChange, Stop
from kvstress.core.exchange import Choice, TokenLogprob, Usage
from kvstress.core.plan import Expect, Origin
from kvstress.store import requests
from kvstress.store.cells import CANONICAL
from kvstress.store.codec import TYPES
from kvstress.store.conclusion import findings_jsonl, verdict
from kvstress.store.prompts import columns
from kvstress.store.reading import EVENTS, MANIFEST
from kvstress.store.rundir import FILES
from kvstress.store.views import METRICS_COLUMNS, PROMPTS, REQUESTS
from tests.store.made import judgement

_README = (Path(__file__).parents[2] / "reports" / "README.md").read_text(encoding="utf-8")
_SECTIONS = dict(re.findall(r"^#{1,3} (\S[^\n]*)\n(.*?)(?=^#|\Z)", _README, re.MULTILINE | re.DOTALL))
_RECORDS: dict[str, type] = {**TYPES, "choice": Choice, "logprob": TokenLogprob, "usage": Usage}
_JSON = {float: "number", int: "integer", str: "string", bool: "boolean", tuple: "array", dict: "object"}


def _table(section: str) -> list[list[str]]:
    lines = [line for line in _SECTIONS[section].splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def _documented(section: str) -> list[str]:
    names: list[str] = []
    for cell, *_ in _table(section):
        spoken = re.findall(r"`([^`]+)`", cell)
        names += CANONICAL if cell.endswith("`kv_capacity` … `process_started`") else spoken
    return names


def _json_type(annotation: Any) -> str:
    if isinstance(annotation, UnionType):
        return " or ".join(_json_type(part) for part in get_args(annotation))
    if annotation is NoneType:
        return "null"
    plain = get_origin(annotation) or annotation
    if issubclass(plain, Enum):
        return "string"
    return "object" if is_dataclass(plain) or issubclass(plain, Mapping) else _JSON[plain]


def test_every_column_of_prompts_is_described_in_order() -> None:
    assert _documented(PROMPTS) == columns(("PHASE",), flare=True)


def test_every_column_of_requests_is_described_in_order() -> None:
    assert _documented(REQUESTS) == list(requests.COLUMNS)


def test_every_column_of_metrics_is_described_in_order() -> None:
    assert _documented("metrics.csv") == list(METRICS_COLUMNS)


@pytest.mark.parametrize("name", _RECORDS)
def test_every_field_of_every_event_is_described_with_its_type(name: str) -> None:
    hints = get_type_hints(_RECORDS[name])
    expected = [(f"`{field.name}`", _json_type(hints[field.name])) for field in fields(_RECORDS[name])]
    assert [(field, kind) for field, kind, _ in _table(name)] == expected


def test_every_description_says_something() -> None:
    tables = (PROMPTS, REQUESTS, "metrics.csv", *_RECORDS)
    assert all(len(row[-1]) > 3 for section in tables for row in _table(section))


@pytest.mark.parametrize("words", [Stop, ServerChange, Origin, Expect])
def test_the_words_a_field_can_hold_are_all_named(words: type[Enum]) -> None:
    assert all(f"`{word.value}`" in _README for word in words)


def test_no_event_is_described_that_does_not_exist() -> None:
    described = set(_SECTIONS) - {"What is in a run directory", "Events", "The other JSON files"}
    assert described == {PROMPTS, REQUESTS, "metrics.csv", *_RECORDS}


def test_every_file_that_the_store_writes_is_named() -> None:
    assert {MANIFEST, EVENTS} <= set(FILES)
    assert all(f"`{name}`" in _SECTIONS["What is in a run directory"] for name in FILES)


def test_every_key_of_the_verdict_and_of_a_finding_is_named() -> None:
    text = _SECTIONS["The other JSON files"]
    assert all(f"`{key}`" in text for key in verdict(judgement()))
    assert all(f"`{key}`" in text for key in ("phase", "measured", "limit", "evidence"))
    assert findings_jsonl(judgement()).startswith(b'{"oracle"')
