"""A page is read in the dialect that its own names betray; the user is asked only to overrule.

Engines are told apart by prefix. Where one page carries two engines' series (a router passes its
engine's through), the dialect that fills more of a Sample wins. A page of nobody we know keeps
its raw values and fills nothing: a wrong number would be worse than none.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from kvstress.core.errors import UsageError
from kvstress.metrics.alias import Dialect, Reading
from kvstress.metrics.engines import DIALECTS
from kvstress.metrics.parse import Page, Series, finite

RAW_CAP = 200
UNKNOWN = Dialect(name="unknown", prefixes=("",), aliases={})
_NOBODYS = ("python_", "process_", "go_", "promhttp_")


@dataclass(frozen=True, slots=True, kw_only=True)
class Canonical:
    """A page in canonical words: `fields` of Sample (finite numbers only), `raw` by exported name."""

    fields: Mapping[str, float]
    raw: dict[str, float]
    problem: str | None


def named(name: str) -> Dialect:
    """The dialect called `name`, whatever its case and punctuation; UsageError names the ones there are."""
    for dialect in DIALECTS:
        if _plain(dialect.name) == _plain(name):
            return dialect
    raise UsageError(f"unknown dialect {name!r}: it is one of {', '.join(d.name for d in DIALECTS)}")


def _plain(name: str) -> str:
    return "".join(filter(str.isalnum, name.lower()))


def choose(page: Page) -> Dialect:
    """The dialect of `page`: of those whose prefix it has, the one that fills most fields; `UNKNOWN` when none has."""
    present = [dialect for dialect in DIALECTS if any(dialect.owns(name) for name in page.series)]
    return max(present, key=lambda dialect: len(_found(page, dialect)), default=UNKNOWN)


def read(page: Page, dialect: Dialect) -> Canonical:
    """`page` in canonical words. A field whose number is NaN or infinite is left out and named in `problem`."""
    found = _found(page, dialect)
    wrong = [f"{field} ({one.name}) is {one.value}" for field, one in found.items() if not finite(one.value)]
    return Canonical(
        fields={field: one.value for field, one in found.items() if finite(one.value)},
        raw=_raw(page, dialect),
        problem="; ".join(filter(None, (page.problem, *wrong))) or None,
    )


def _found(page: Page, dialect: Dialect) -> Reading:
    direct = {field: dialect.look_up(page, alias) for field, alias in dialect.aliases.items()}
    found = {field: one for field, one in direct.items() if one is not None}
    return found | dialect.derive(page, found)


def _raw(page: Page, dialect: Dialect) -> dict[str, float]:
    """The dialect's own series summed over labels, then the parts of those whose sum says nothing.

    Not finite ones are left out: JSON has no word for them.
    """
    own = [name for name in page.series if dialect.owns(name) and not name.startswith(_NOBODYS)]
    totals = [(name, dialect.combined(page.series[name])) for name in own]
    kept = [(name, value) for name, value in (*_parts(page, dialect), *totals) if finite(value)]
    return dict(kept[:RAW_CAP])


def _parts(page: Page, dialect: Dialect) -> Iterable[tuple[str, float]]:
    for name, label in dialect.split:
        parts: dict[str, list[Series]] = {}
        for series in page.series.get(name, ()):
            parts.setdefault(f'{name}{{{label}="{series.labels.get(label, "")}"}}', []).append(series)
        yield from ((part, dialect.combined(series)) for part, series in parts.items())
