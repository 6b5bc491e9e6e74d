"""Verdicts form a chain, so combining them is taking the worst, and nothing judged is not a pass.

A tester that says PASS when it saw nothing is worse than none. Hence `worst()` of no
verdicts at all is INCONCLUSIVE, and INVALID (the run never reached the state its workload
is about) outranks PASS and INCONCLUSIVE but never hides a FAIL.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum


class Verdict(IntEnum):
    """Ordered by gravity: PASS < INCONCLUSIVE < INVALID < FAIL."""

    PASS = 0
    INCONCLUSIVE = 1
    INVALID = 2
    FAIL = 3

    @property
    def exit_code(self) -> int:
        """The process exit code of `run`, `judge` and `replay`."""
        return {Verdict.PASS: 0, Verdict.FAIL: 1}.get(self, 125)


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """The gravest of `verdicts`; INCONCLUSIVE when there are none."""
    return max(verdicts, default=Verdict.INCONCLUSIVE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One observation of one oracle.

    `signature` is the failure's coarse identity (oracle, kind and the server's words with
    their volatile parts removed); `measured` and `limit` are in words with units; `evidence`
    lists request ids.
    """

    oracle: str
    verdict: Verdict
    signature: str
    step: int | None
    phase: str | None = None
    summary: str
    measured: str | None = None
    limit: str | None = None
    evidence: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstFailure:
    """The earliest failing evidence. `step` counts from 0; session and turn are None outside sessions."""

    step: int
    phase: str | None
    signature: str
    session: str | None = None
    turn: int | None = None
    exposure: int
    in_flight: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolFill:
    """The first step during or after which the KV pool had no room left.

    `how` is measured-eviction, measured-level, derived or unknown; `evidence` is the deciding
    sample or sum in words.
    """

    step: int
    how: str
    evidence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """What a run showed, rebuilt from its events alone.

    `steps` counts completed steps. Exactly one of `first_failure` and `censored_at` is set
    once a step was completed or failed. `coverage` maps each declared key to whether it was reached
    (None: not observable on this server). `why` is the verdict's reason in one sentence.
    """

    verdict: Verdict
    why: str
    steps: int
    first_failure: FirstFailure | None
    censored_at: int | None
    pool_fill: PoolFill | None
    coverage: dict[str, bool | None]
    findings: tuple[Finding, ...]
    requests: dict[str, int]
    stopped: str | None
