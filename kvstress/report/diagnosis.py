"""A diagnosis as lines for a terminal: first what the server is, then what can be had of it and what cannot and why."""

from collections.abc import Iterator
from dataclasses import fields

from kvstress.core.diagnosis import Can, Diagnosis, Pace
from kvstress.core.features import Features
from kvstress.report.hostile import line

_TOLD = {True: "yes", False: "no", None: "not told"}
_LISTS = frozenset({"exported", "counters"})


def lines(found: Diagnosis) -> Iterator[str]:
    """The diagnosis, line by line; what the server said of itself is tamed."""
    yield _what(found)
    yield f"{found.requests} short requests were sent"
    yield from _offers(found.features)
    yield from _section("oracles", found.oracles)
    yield from _section("coverage", found.coverage)
    yield from ("", f"kvstress: {_pace(found.pace)}")


def _what(found: Diagnosis) -> str:
    version = None if found.version is None else f"version {line(found.version, 60)}"
    names = [name for name in (found.software and line(found.software, 60), version) if name]
    context = "not announced" if found.context_limit is None else f"{found.context_limit:,} tokens"
    about = f" ({', '.join(names)})" if names else ""
    model = line(found.model, 80)
    return f"{line(found.url)}: model {model}{about}, context {context}, metrics of {found.dialect or 'no known kind'}"


def _offers(features: Features) -> Iterator[str]:
    told = [f.name for f in fields(features) if f.name not in _LISTS]
    for answer, word in _TOLD.items():
        names = [name for name in told if getattr(features, name) is answer]
        if names:
            yield f"  {word:<9}{', '.join(names)}"
    yield f"  exports  {', '.join((*features.exported, *features.counters)) or 'nothing'}"


def _section(title: str, cans: tuple[Can, ...]) -> Iterator[str]:
    able = [can for can in cans if can.yes]
    yield ""
    yield f"{title}: {len(able)} of {len(cans)}"
    plain = [can.name for can in able if not can.why]
    if plain:
        yield f"  yes      {', '.join(plain)}"
    yield from (f"  yes      {can.name}, but {can.why}" for can in able if can.why)
    yield from (f"  no       {can.name}: {can.why}" for can in cans if not can.yes)


def _pace(pace: Pace) -> str:
    between = f"half of {pace.rounds} rounds between {pace.lower:,.0f} and {pace.upper:,.0f}"
    late = f"its loop comes back {pace.lag_median * 1000:.1f} ms late, {pace.lag_worst * 1000:.1f} ms at worst"
    return f"takes {pace.events_per_second:,.0f} reads of a stream a second ({between}); {late}"
