"""The curve of a search as a table: one row a probe, by value, for whoever draws it in another way.

A survived probe has no first failure, and its cell is empty: what it survived stands in `exposure`.
"""

import csv
import io
from collections.abc import Mapping, Sequence
from typing import Any

COLUMNS = (
    "value", "number", "repeat", "outcome", "first_failure", "pool_fill", "how", "exposure", "launches", "seconds",
    "run", "why",
)  # fmt: skip


def by_value(found: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """The probes of bisect.json's content in the order of the knob's values."""
    return sorted(found["probes"], key=lambda one: (one["number"], one["repeat"]))


def csv_text(found: Mapping[str, Any]) -> str:
    """bisect.csv: `COLUMNS` of each probe; what was not observed is empty."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    for one in by_value(found):
        writer.writerow(["" if one[name] is None else _cell(one[name]) for name in COLUMNS])
    return out.getvalue()


def _cell(value: object) -> object:
    """Text without control characters, and never taken for a formula."""
    if not isinstance(value, str):
        return value
    flat = " ".join("".join(character if character.isprintable() else " " for character in value).split())
    return f"'{flat}" if flat[:1] in "=+-@" and flat else flat
