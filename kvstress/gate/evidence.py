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


@dataclass(frozen=True, slots=True, kw_only=True)
class Timed:
    """A measurement of prompt number `prompt` in run number `run` of its side: `amount` per `seconds`.

    For a latency `amount` is 1 and `seconds` the latency; for a pace, what a step generated and how long it took.
    """

    prompt: int
    run: int
    seconds: float
    amount: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Intervals:
    """95 % intervals of head over base, of a `quantile` and of a `pace`; None where it cannot be told."""

    quantile: Callable[[Sequence[Timed], Sequence[Timed], float], Interval | None]
    pace: Callable[[Sequence[Timed], Sequence[Timed]], Interval | None]


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
    `batches` has the same by how many were sent at once, in runs that measure that.
    """

    run: str
    plan: str
    first: First | None
    levels: Mapping[str, float | None] = field(default_factory=dict)
    signatures: frozenset[str] = frozenset()
    latencies: Mapping[tuple[str, str], tuple[tuple[int, float], ...]] = field(default_factory=dict)
    paces: tuple[tuple[int, float, float], ...] = ()
    batches: Mapping[str, tuple[tuple[float, float], ...]] = field(default_factory=dict)


Side = tuple[Seen, ...]


def latencies(side: Side, word: str, phase: str | None) -> dict[Prompt, list[tuple[int, float]]]:
    """Run number and seconds of each sample of latency `word`, by prompt; of one phase or of all."""
    found: dict[Prompt, list[tuple[int, float]]] = {}
    for number, seen in enumerate(side):
        for (name, where), samples in seen.latencies.items():
            if name == word and phase in (None, where):
                for step, value in samples:
                    found.setdefault((seen.plan, step), []).append((number, value))
    return found


def paces(side: Side) -> dict[Prompt, list[tuple[int, float, float]]]:
    """Run number, tokens and seconds of each completed step, by prompt."""
    found: dict[Prompt, list[tuple[int, float, float]]] = {}
    for number, seen in enumerate(side):
        for step, tokens, seconds in seen.paces:
            found.setdefault((seen.plan, step), []).append((number, tokens, seconds))
    return found


def signatures(side: Side) -> frozenset[str]:
    """The signatures of failing findings of any run."""
    return frozenset().union(*(seen.signatures for seen in side))
