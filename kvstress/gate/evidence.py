"""What a gate sees of the two sides: first failures run by run, levels run by run, latencies pooled.

A run without a failure is right-censored: it says "later than this" and nothing else. Nothing here is
a mean, because a mean of one censored value and one failure is a number about neither.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

Interval = tuple[float, float]
Paces = tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Intervals:
    """95 % intervals of head over base, of a `quantile` of two samples and of two `pace`s; None: cannot be told."""

    quantile: Callable[[tuple[float, ...], tuple[float, ...], float], Interval | None]
    pace: Callable[[Paces, Paces], Interval | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class First:
    """`failed`: the first failure was at `step`, with `signature`; else none in `step` steps."""

    step: int
    failed: bool
    signature: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """One run. `plan` is its plan's digest, which pairs it; `levels` are its numbers by metric (None: not observed).

    `signatures` are those of its failing findings; `latencies` maps a latency word and phase to samples in seconds;
    `pace` is what each completed step generated, in tokens, and how long it took, in seconds.
    """

    run: str
    plan: str
    first: First | None
    levels: Mapping[str, float | None] = field(default_factory=dict)
    signatures: frozenset[str] = frozenset()
    latencies: Mapping[tuple[str, str], tuple[float, ...]] = field(default_factory=dict)
    pace: Paces = ()


Side = tuple[Seen, ...]


def pooled(side: Side, word: str, phase: str | None) -> tuple[float, ...]:
    """The samples of latency `word` of all runs, of one phase or of all."""
    return tuple(
        value
        for seen in side
        for (name, where), values in seen.latencies.items()
        if name == word and phase in (None, where)
        for value in values
    )


def signatures(side: Side) -> frozenset[str]:
    """The signatures of failing findings of any run."""
    return frozenset().union(*(seen.signatures for seen in side))
