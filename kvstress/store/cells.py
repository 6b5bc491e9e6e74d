"""What a CSV cell may hold: numbers as they are, and a server's words only once they are harmless.

Tables get opened in spreadsheets, and a spreadsheet runs a cell that starts with `=`, `+`,
`-` or `@`. An error message is chosen by the server, so such text gets an apostrophe in front,
also after a semicolon, which is what separates cells where the comma is the decimal
sign. White space becomes single spaces, so that one line is one row, and control characters
become U+FFFD, so that a terminal shows them and obeys none. `events.jsonl` keeps the exact text.
"""

import csv
import io
import math
import re
from collections.abc import Iterable

# The canonical metrics, in the order of `Sample`.
CANONICAL = (
    "kv_capacity",
    "kv_free",
    "kv_cached",
    "kv_usage",
    "snapshots_free",
    "running",
    "waiting",
    "preemptions",
    "evictions",
    "prefix_queries",
    "prefix_hits",
    "prompt_tokens",
    "generation_tokens",
    "requests_completed",
    "requests_failed",
    "process_started",
)

_FORMULA = re.compile(r"(^|;)( *)(?=[=+\-@＝＋－＠])")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def printable(text: str) -> str:
    """`text` on one line, without control or direction characters and without half surrogate pairs."""
    return _CONTROL.sub("�", " ".join(text.split())).encode("utf-8", "replace").decode()


def text(value: str | None) -> str:
    """A text cell that no spreadsheet takes for a formula; empty when nothing was observed."""
    return _FORMULA.sub(r"\1\2'", printable(value)) if value else ""


def number(value: float | None) -> str:
    """A count or measurement, exact: whole numbers without a point, NaN and inf by name, empty when not observed."""
    if value is None:
        return ""
    if math.isfinite(value) and abs(value) < 2**53 and value == int(value):
        return str(int(value))
    return "NaN" if math.isnan(value) else repr(float(value))


def seconds(value: float | None) -> str:
    """A time or latency in seconds to the microsecond; empty when not observed."""
    if value is None or not math.isfinite(value):
        return number(value)
    return f"{value:.6f}".rstrip("0").rstrip(".")


def row(cells: Iterable[str]) -> bytes:
    """`cells` as one line of CSV (comma, quotes where needed, newline, UTF-8)."""
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\n").writerow(cells)
    return buffer.getvalue().encode()
