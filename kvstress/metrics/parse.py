"""A metrics page becomes a flat list of series, and a page that is none becomes one sentence.

The page is written by the server under test, which may be ill: it can answer HTML, JSON, half
a page or a hundred megabytes. What can be read is read, by prometheus-client's own parsers;
what cannot is named in `problem`. Buckets and creation times are dropped before parsing,
because they are two thirds of a large page and nothing here judges by them, and the time
taken to parse is taken from the load generator.
"""

import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from prometheus_client import Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families as _read_openmetrics
from prometheus_client.parser import text_string_to_metric_families as _read_text

PAGE_CAP = 4_000_000
LINE_CAP = 16_000
_UNREAD = re.compile(r"#\s*(?:HELP|TYPE|UNIT)\b|[^\s{]*_(?:bucket|created)[\s{]")
_TYPED = re.compile(r"^#\s*(?:HELP|TYPE)\s", re.MULTILINE)
_EOF = "# EOF"
_PARSER_ERRORS = (ValueError, IndexError, KeyError, TypeError, AttributeError, OverflowError, RecursionError)
_Reader = Callable[[str], Iterable[Metric]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """One exported value. `name` is spelled as exported; `value` may be NaN or infinite, as the server said it."""

    name: str
    labels: Mapping[str, str]
    value: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """The series of one page by exported name, in page order. `problem` names what could not be read, or is None."""

    series: Mapping[str, tuple[Series, ...]]
    problem: str | None = None


def parse(text: str) -> Page:
    """The series of a Prometheus text or OpenMetrics page without buckets and creation times. Never raises."""
    if len(text) > PAGE_CAP:
        return Page(series={}, problem=f"the page has {len(text):,} characters, more than {PAGE_CAP:,}: not read")
    # Not splitlines(): it also cuts at characters that a label value may contain.
    lines = [line.strip() for line in text.split("\n") if line.strip() and not _UNREAD.match(line.lstrip())]
    if any(not line.startswith("#") for line in lines):
        whole = _whole(lines)
        return Page(series=_by_name(whole)) if whole is not None else _piecemeal(lines, text)
    if not text.strip():
        return Page(series={}, problem="the page is empty")
    # Names without values are legal: a server that has counted nothing yet.
    return Page(series={}, problem=None if _TYPED.search(text) or _EOF in lines else _alien(text))


def _whole(lines: list[str]) -> list[Series] | None:
    """All series of a page without fault; None when some line of it cannot be read."""
    if any(len(line) > LINE_CAP for line in lines):
        return None
    page = "\n".join(lines) + "\n"
    if lines[-1].strip() == _EOF and (series := _read(_read_openmetrics, page)) is not None:
        return series
    return _read(_read_text, page)


def _read(reader: _Reader, page: str) -> list[Series] | None:
    try:
        return [
            Series(name=sample.name, labels=sample.labels, value=float(sample.value))
            for family in reader(page)
            for sample in family.samples
        ]
    except _PARSER_ERRORS:
        return None


def _piecemeal(lines: list[str], text: str) -> Page:
    """Line by line: one bad line must not cost the other 500, but a page of bad lines is no metrics page."""
    found: list[Series] = []
    bad: list[str] = []
    for line in lines:
        read = None if len(line) > LINE_CAP else _read(_read_text, line + "\n")
        if read is None:
            bad.append(line)
        else:
            found += read
        if len(bad) > 20 and len(bad) > len(found):
            return Page(series={}, problem=_alien(text))
    if len(bad) >= len(found):
        return Page(series={}, problem=_alien(text))
    return Page(series=_by_name(found), problem=f"{len(bad)} unreadable line(s), the first: {_shown(bad[0])}")


def _by_name(found: Iterable[Series]) -> dict[str, tuple[Series, ...]]:
    """Series by name; where a page gives the same labels twice the last one counts, as adding them would double it."""
    latest = {(one.name, frozenset(one.labels.items())): one for one in found}
    grouped: dict[str, list[Series]] = {}
    for one in latest.values():
        grouped.setdefault(one.name, []).append(one)
    return {name: tuple(series) for name, series in grouped.items()}


def _alien(text: str) -> str:
    start = text.lstrip("\ufeff \t\r\n")[:400].lower()
    kind = "it is binary" if "\x00" in start or start.count("\ufffd") > 4 else None
    kind = kind or ("it is HTML" if start.startswith("<") else "it is JSON" if start[:1] in ("{", "[") else "it begins")
    return f"the page is not Prometheus text: {kind}: {_shown(text)}"


def _shown(text: str) -> str:
    """The first 80 characters of `text` on one line, control characters made visible."""
    return ascii(" ".join(text[:400].split())[:80])


def finite(value: float) -> bool:
    """Is `value` a number that can be compared? NaN and infinities are not."""
    return math.isfinite(value)
