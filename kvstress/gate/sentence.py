"""A gate is a sentence that a person wrote: `first_failure >= baseline`, `ttft_warm_p95 <= 1.10x`, `findings.new == 0`.

It is read once, into a metric, a sign and a bound, and whatever cannot be read is refused with the
words that could stand there: a sentence that is silently ignored is a gate that is always open.
"""

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from kvstress.core.errors import UsageError
from kvstress.core.units import duration

LATENCIES = ("ttft", "itl", "tpot", "e2e")
STATISTICS: Mapping[str, float] = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99, "max": 1.0}
# What each plain metric counts, for the README and for the message of a wrong one.
METRICS: Mapping[str, str] = {
    "first_failure": "the step of the first failure; a run without one counts as its number of steps, or more",
    "pool_fill": "the step at which the KV pool was full",
    "capacity": "tokens that the KV pool holds",
    "steps": "steps completed",
    "failures": "runs whose verdict is FAIL",
    "errors": "requests that failed, broke or were lost",
    "findings": "failing findings, counted by signature",
    "findings.new": "signatures of failing findings that no run of the baseline has",
    "throughput": "generated tokens a second",
}
ABSENT_IN_BASE = ("findings.new",)

_SENTENCE = re.compile(r"\s*(?P<metric>[\w.-]+)\s*(?P<sign>[<>=!]{1,2})\s*(?P<bound>.+?)\s*")
_LATENCY = re.compile(
    rf"(?P<word>{'|'.join(LATENCIES)})(?:_(?P<phase>[a-z0-9][a-z0-9_-]*?))?_(?P<stat>{'|'.join(STATISTICS)})"
)
_BASELINE = re.compile(r"baseline(?:\s*(?P<sign>[+-])\s*(?P<number>\d+(?:\.\d+)?))?")
_FACTOR = re.compile(r"(?P<factor>\d+(?:\.\d+)?)\s*x(?:\s*baseline)?")


class Sign(StrEnum):
    """How the measured value must stand to the bound."""

    AT_LEAST = ">="
    AT_MOST = "<="
    ABOVE = ">"
    BELOW = "<"
    EQUAL = "=="

    def holds(self, value: float, bound: float) -> bool:
        """Whether `value` stands so to `bound`."""
        match self:
            case Sign.AT_LEAST:
                return value >= bound
            case Sign.AT_MOST:
                return value <= bound
            case Sign.ABOVE:
                return value > bound
            case Sign.BELOW:
                return value < bound
        return value == bound

    @property
    def upward(self) -> bool:
        """True when more is better."""
        return self in (Sign.AT_LEAST, Sign.ABOVE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """`factor` times the baseline plus `offset`; with `factor` None, `offset` itself (seconds for latencies)."""

    factor: float | None
    offset: float

    @property
    def relative(self) -> bool:
        """True when it takes a baseline to know it."""
        return self.factor is not None

    def at(self, base: float | None) -> float | None:
        """The number that it comes to; None when it needs a baseline's value and there is none."""
        if self.factor is None:
            return self.offset
        return None if base is None else self.factor * base + self.offset


AS_BASELINE = Bound(factor=1.0, offset=0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sentence:
    """One requirement; `text` is as it was written, `latency` the parts of a metric such as `ttft_warm_p95`."""

    text: str
    metric: str
    sign: Sign
    bound: Bound
    latency: "Latency | None" = None

    @property
    def no_earlier(self) -> bool:
        """True for `first_failure >= baseline` itself, without a factor or an allowance."""
        return self.metric == "first_failure" and self.sign is Sign.AT_LEAST and self.bound == AS_BASELINE

    @property
    def needs_baseline(self) -> bool:
        """True when nothing can be said without a run to compare with."""
        return self.bound.relative or self.metric in ABSENT_IN_BASE


@dataclass(frozen=True, slots=True, kw_only=True)
class Latency:
    """`word` of LATENCIES, of one `phase` or (None) of all, at `quantile` 0–1."""

    word: str
    phase: str | None
    quantile: float


def parse(text: str) -> Sentence:
    """The sentence in `text`. UsageError naming the part that cannot be read, and what could stand there."""
    match = _SENTENCE.fullmatch(text)
    if match is None:
        raise UsageError(f"gate {text!r}: expected METRIC SIGN BOUND, as in 'first_failure >= baseline'")
    metric = match["metric"]
    latency = _latency(metric)
    if latency is None and metric not in METRICS:
        raise UsageError(f"gate {text!r}: no metric is called {metric!r}{_hint(metric)}")
    if match["sign"] not in list(Sign):
        raise UsageError(f"gate {text!r}: no sign {match['sign']!r}: use one of {', '.join(Sign)}")
    bound = _bound(text, match["bound"], seconds=latency is not None)
    if bound.relative and metric in ABSENT_IN_BASE:
        raise UsageError(f"gate {text!r}: {metric} has no value in a baseline; give a number, as in '{metric} == 0'")
    return Sentence(text=" ".join(text.split()), metric=metric, sign=Sign(match["sign"]), bound=bound, latency=latency)


def of_workload(gate: Mapping[str, Any]) -> tuple[Sentence, ...]:
    """The sentences of a workload's `[gate]`: `first_failure = ">= baseline"`, or a list of several conditions.

    UsageError for one that cannot be read.
    """
    return tuple(parse(f"{metric} {condition}") for metric, condition in _conditions(gate, ""))


def _conditions(table: Mapping[str, Any], prefix: str) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    for key, value in table.items():
        name = f"{prefix}{key}"
        # An unquoted `findings.new` is a table in a table to TOML.
        if isinstance(value, Mapping):
            found += _conditions(value, f"{name}.")
            continue
        for condition in value if isinstance(value, list | tuple) else [value]:
            if not isinstance(condition, str):
                raise UsageError(f'[gate] {name}: expected a condition such as ">= baseline", got {condition!r}')
            found.append((name, condition))
    return found


def _latency(metric: str) -> Latency | None:
    match = _LATENCY.fullmatch(metric)
    if match is None:
        return None
    return Latency(word=match["word"], phase=match["phase"], quantile=STATISTICS[match["stat"]])


def _bound(text: str, words: str, *, seconds: bool) -> Bound:
    if match := _BASELINE.fullmatch(words):
        offset = float(match["number"] or 0)
        return Bound(factor=1.0, offset=-offset if match["sign"] == "-" else offset)
    if match := _FACTOR.fullmatch(words):
        return Bound(factor=float(match["factor"]), offset=0.0)
    try:
        return Bound(factor=None, offset=duration(words) if seconds else float(_plain(words)))
    except (UsageError, ValueError) as problem:
        number = "a time (0.5s)" if seconds else "a number"
        raise UsageError(
            f"gate {text!r}: cannot read {words!r}: expected {number}, a factor (1.10x), or baseline (baseline - 2)"
        ) from problem


def _plain(words: str) -> str:
    """A number as people write it, 1,000 or 0.5; `float` alone would also take nan, which no value ever meets."""
    if re.fullmatch(r"\d[\d,]*(?:\.\d+)?", words) is None:
        raise ValueError(words)
    return words.replace(",", "")


def _hint(metric: str) -> str:
    known = [*METRICS, *(f"{word}_warm_{stat}" for word in LATENCIES for stat in STATISTICS)]
    near = difflib.get_close_matches(metric, known, n=1, cutoff=0.6)
    there = f"there are {', '.join(METRICS)}, and latencies such as ttft_warm_p95 or e2e_p50"
    return f"; did you mean {near[0]!r}?" if near else f": {there}"
