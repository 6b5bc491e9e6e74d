"""Whether a smaller case still fails, asked of a server that may fail only sometimes.

A failure that was seen is certain; a pass may be a failure that did not happen this time. So a case is kept only once
it was seen to fail, and dropped by Wald's sequential test: after so many passes that failing as often as the whole run
did has become unlikely. For a server that always fails this is: three failures keep it, one pass drops it; seven where
the case asks for more answers at once than the run did, whose order is the server's to choose and may be chance.
"""

import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from enum import StrEnum

from kvstress.core.case import Case

# Kept with a case that fails far too seldom: 1 in 20. Dropped with one that fails as often as it should: 1 in 10.
ALPHA, BETA = 0.05, 0.1
_SURE, _SELDOM = 0.95, 0.35
_FIRM, _SHAKY = 0.99, 0.65
_SHARE = 0.25
BASELINE_FAILURES = 3
BASELINE_PROBES = 24
# So many passes and no failure: a run that fails with probability 0.3 would be given up 6 times in 100.
GIVEN_UP = 8
_UNJUDGED_TRIES = 2


class Shows(StrEnum):
    """What one probe showed."""

    SAME = "same failure"
    OTHER = "another failure"
    PASSED = "no failure"
    UNJUDGED = "could not be judged"


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """One probe's answer. `sent` is the number of leading steps that had begun, `at` the place of the failing one.

    `signature` identifies the failure; `what` says which oracle saw it at which request of the case.
    """

    shows: Shows
    sent: int = 0
    at: int | None = None
    why: str = ""
    run: str = ""
    seconds: float = 0.0
    signature: str = ""
    what: str = ""


Probe = Callable[[Case], Awaitable[Shown]]
Attempt = Callable[[Case], Awaitable[Case | None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sequential:
    """Wald's test of p ≥ `often` against p ≤ `seldom`, on failures and passes."""

    often: float
    seldom: float

    def decided(self, failed: int, passed: int) -> bool | None:
        """True: it fails often enough; False: it does not; None: ask again."""
        ratio = failed * math.log(self.often / self.seldom) + passed * math.log((1 - self.often) / (1 - self.seldom))
        if failed and ratio >= math.log((1 - BETA) / ALPHA):
            return True
        return False if ratio <= math.log(BETA / (1 - ALPHA)) else None


def sequential(rate: float | None, broader: bool = False) -> Sequential:
    """The test for cases cut from a run that fails with probability `rate` (None: it always did).

    `broader`: the case asks for more answers at once than the run. Of many such cases that fail now and then one will
    fail three times in a row, and the search would take it for a sure one.
    """
    if rate is None and broader:
        return Sequential(often=_FIRM, seldom=_SHAKY)
    if rate is None:
        return Sequential(often=_SURE, seldom=_SELDOM)
    return Sequential(often=rate, seldom=rate * _SHARE)


@dataclass(slots=True)
class _Tally:
    failed: int = 0
    passed: int = 0
    unjudged: int = 0
    sent: int = 0
    at: int | None = None


class Keeper:
    """Asks the probe, remembers every answer, and never asks about a case that is decided."""

    def __init__(self, probe: Probe, kept: Callable[[Case], None] = lambda case: None) -> None:
        """`kept` is told each time there is a new `best`, so that it can be stored before anything else happens."""
        self._probe = probe
        self._kept = kept
        self._tallies: dict[str, _Tally] = {}
        self._breadth = 1
        self.rate: float | None = None
        self.best: Case | None = None

    async def baseline(self, case: Case) -> Case | None:
        """The case as it fails, and how often it does (`rate`); None when it was never seen to fail.

        Probes until three failures, whose waiting time estimates the probability without bias: (3 − 1) / (n − 1).
        """
        tally = self._tally(case)
        self._breadth = max(1, case.breadth)
        while tally.failed < BASELINE_FAILURES and tally.failed + tally.passed + tally.unjudged < BASELINE_PROBES:
            await self._ask(case, tally)
            if tally.unjudged > _UNJUDGED_TRIES or (not tally.failed and tally.passed >= GIVEN_UP):
                break
        probes = tally.failed + tally.passed
        if tally.passed and tally.failed:
            self.rate = max(0.02, (tally.failed - 1) / max(1, probes - 1)) if tally.failed > 1 else 1 / probes
        return self.keep(_cut(case, tally)) if tally.failed else None

    async def once(self, case: Case) -> Case | None:
        """The case, cut behind its failure, when one probe of it fails; surer only where the run itself is flaky."""
        if self.rate is not None:
            return await self.surely(case)
        tally = self._tally(case)
        while not (tally.failed or tally.passed or tally.unjudged >= _UNJUDGED_TRIES):
            await self._ask(case, tally)
        if not tally.failed or tally.passed:
            return None
        return self.keep(_cut(case, tally))

    async def surely(self, case: Case) -> Case | None:
        """The case, cut behind its failure, when the sequential test keeps it."""
        tally, test = self._tally(case), sequential(self.rate, case.breadth > self._breadth)
        while (kept := test.decided(tally.failed, tally.passed)) is None and tally.unjudged < _UNJUDGED_TRIES:
            await self._ask(case, tally)
        if not kept:
            return None
        return self.keep(_cut(case, tally))

    def keep(self, case: Case) -> Case:
        """`case` is the best so far."""
        self.best = case
        self._kept(case)
        return case

    def tally(self, case: Case) -> tuple[int, int]:
        """How often `case` failed, of how many judged probes."""
        tally = self._tally(case)
        return tally.failed, tally.failed + tally.passed

    async def _ask(self, case: Case, tally: _Tally) -> None:
        shown = await self._probe(case)
        tally.failed += shown.shows is Shows.SAME
        tally.passed += shown.shows in (Shows.PASSED, Shows.OTHER)
        tally.unjudged += shown.shows is Shows.UNJUDGED
        if shown.shows is Shows.SAME:
            # The longest of the failing runs: all that any of them sent is still in the case.
            tally.sent = max(tally.sent, shown.sent)
            tally.at = shown.at if tally.at is None or (shown.at or 0) > tally.at else tally.at
            # What a case showed it shows for the same traffic without the rest, which was never sent.
            self._tallies[_cut(case, tally).digest()] = tally

    def _tally(self, case: Case) -> _Tally:
        return self._tallies.setdefault(case.digest(), _Tally())


def _cut(case: Case, tally: _Tally) -> Case:
    failing = None if tally.at is None else case.steps[tally.at].index
    return replace(case.until(tally.sent), failing=failing)
