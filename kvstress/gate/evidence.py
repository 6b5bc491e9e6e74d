"""What a gate sees of the two sides: first failures and levels run by run, timings step by step.

A run without a failure is right-censored: it says "later than this" and nothing else. Nothing here is
a mean, because a mean of one censored value and one failure is a number about neither. Timings keep their
step, because the same step of the same plan is the same prompt, and is compared with itself.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

Interval = tuple[float, float]
# A plan's digest and a step of it: the prompt that two runs of that plan share.
Prompt = tuple[str, int]
Pace = tuple[float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Intervals:
    """95 % intervals of head over base, prompt by prompt, of a `quantile` and of a `pace`; None: it cannot be told."""

    quantile: Callable[[Sequence[Sequence[float]], Sequence[Sequence[float]], float], Interval | None]
    pace: Callable[[Sequence[Pace], Sequence[Pace]], Interval | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class First:
    """`failed`: the first failure was at `step`, with `signature`; else none in `step` steps."""

    step: int
    failed: bool
    signature: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """One run. `plan` is its plan's digest, which pairs it; `levels` are its numbers by metric (None: not observed).

    `signatures` are those of its failing findings. `latencies` maps a latency word and phase to pairs of step and
    seconds; `paces` has for completed steps what they generated, in tokens, and how long they took, in seconds.
    """

    run: str
    plan: str
    first: First | None
    levels: Mapping[str, float | None] = field(default_factory=dict)
    signatures: frozenset[str] = frozenset()
    latencies: Mapping[tuple[str, str], tuple[tuple[int, float], ...]] = field(default_factory=dict)
    paces: tuple[tuple[int, float, float], ...] = ()


Side = tuple[Seen, ...]


def by_prompt(side: Side, word: str, phase: str | None) -> dict[Prompt, list[float]]:
    """The samples of latency `word` of all runs by prompt, of one phase or of all."""
    found: dict[Prompt, list[float]] = {}
    for seen in side:
        for (name, where), samples in seen.latencies.items():
            if name == word and phase in (None, where):
                for step, value in samples:
                    found.setdefault((seen.plan, step), []).append(value)
    return found


def paces(side: Side) -> dict[Prompt, Pace]:
    """Tokens and seconds of each prompt, summed over runs."""
    found: dict[Prompt, Pace] = {}
    for seen in side:
        for step, tokens, seconds in seen.paces:
            before = found.get((seen.plan, step), (0.0, 0.0))
            found[seen.plan, step] = before[0] + tokens, before[1] + seconds
    return found


def signatures(side: Side) -> frozenset[str]:
    """The signatures of failing findings of any run."""
    return frozenset().union(*(seen.signatures for seen in side))
