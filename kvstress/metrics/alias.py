"""What an engine calls a thing, and how its labelled series become one number.

The same quantity has other names in other versions and comes once per engine, rank or reason.
Which names mean it, and whether its series add up (tokens of two data-parallel engines) or the
worst counts (usage of two pools), is declared beside the name, never guessed from the page.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from kvstress.metrics.parse import Page, Series


@dataclass(frozen=True, slots=True, kw_only=True)
class Alias:
    """Exported names of one canonical quantity, the newest first; the first that the page has is taken.

    `counter` names may carry `_total` or not: exporters disagree. `label` keeps only series whose label of that
    name is in `only` (or, when `only` is empty, not in `without`). `scale` multiplies the number.
    """

    names: tuple[str, ...]
    most: bool = False
    counter: bool = False
    label: str | None = None
    only: frozenset[str] = frozenset()
    without: frozenset[str] = frozenset()
    scale: float = 1.0

    def spellings(self) -> tuple[str, ...]:
        """Every exported spelling, in order of preference."""
        if not self.counter:
            return self.names
        return tuple(spelling for name in self.names for spelling in (f"{name}_total", name))


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A number (perhaps NaN) and the exported name that it was read under."""

    value: float
    name: str


Reading = dict[str, Found]
Derive = Callable[[Page, Mapping[str, Found]], Reading]


def _nothing_more(page: Page, found: Mapping[str, Found]) -> Reading:
    return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """One engine's names. `aliases` maps Sample's fields; `derive` adds what follows from several series.

    `prefixes` mark the engine's own series. Series that differ only in a label of `shards` describe the same
    tokens (tensor-parallel ranks) and count once. Where a label of `totals` is empty, the series is
    the total of those where it is not. `split` names (series, label) pairs whose labelled parts are kept in `raw` as
    well, since their sum says nothing.
    """

    name: str
    prefixes: tuple[str, ...]
    aliases: Mapping[str, Alias]
    derive: Derive = _nothing_more
    shards: frozenset[str] = frozenset()
    totals: frozenset[str] = frozenset()
    split: tuple[tuple[str, str], ...] = field(default_factory=tuple)

    def owns(self, name: str) -> bool:
        """Is `name` one of this engine's own series?"""
        return name.startswith(self.prefixes)

    def look_up(self, page: Page, alias: Alias) -> Found | None:
        """The number that `alias` has on `page`; None when the page lacks it, which is not 0."""
        for name in alias.spellings():
            series = [one for one in page.series.get(name, ()) if _kept(one, alias)]
            if series:
                return Found(value=self.combined(series, most=alias.most) * alias.scale, name=name)
        return None

    def combined(self, series: Sequence[Series], *, most: bool = False) -> float:
        """One number of several series: shards count once, the rest adds up (or the largest counts)."""
        whole: dict[frozenset[tuple[str, str]], float] = {}
        for one in self._unparted(series):
            key = frozenset((label, value) for label, value in one.labels.items() if label not in self.shards)
            whole[key] = max(whole[key], one.value) if key in whole else one.value
        return max(whole.values()) if most else sum(whole.values())

    def _unparted(self, series: Sequence[Series]) -> Sequence[Series]:
        """`series` without those parts whose total is among them."""
        for label in self.totals:
            series = [one for one in series if one.labels.get(label) == ""] or series
        return series


def gauge(*names: str, most: bool = False, scale: float = 1.0) -> Alias:
    """A level: exact names only. Summed over labels, or the largest (`most`)."""
    return Alias(names=names, most=most, scale=scale)


def counter(*names: str) -> Alias:
    """A running total, named without `_total`; summed over labels."""
    return Alias(names=tuple(name.removesuffix("_total") for name in names), counter=True)


def counter_of(name: str, label: str, *, only: tuple[str, ...] = (), without: tuple[str, ...] = ()) -> Alias:
    """The part of a running total whose `label` is one of `only`, or none of `without`."""
    bare = name.removesuffix("_total")
    return Alias(names=(bare,), counter=True, label=label, only=frozenset(only), without=frozenset(without))


def _kept(one: Series, alias: Alias) -> bool:
    if alias.label is None:
        return True
    said = one.labels.get(alias.label, "")
    return said in alias.only if alias.only else said not in alias.without


def number(label: str | None) -> float:
    """A label's number; NaN for None, "None" and other words."""
    try:
        return float(label) if label is not None else math.nan
    except ValueError:
        return math.nan


STARTED = gauge("process_start_time_seconds", most=True)
