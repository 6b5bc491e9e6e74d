"""BLAST: does one request's failure take others with it?

Compares each failing request with those that were in flight beside it: an innocent one, which fits and would have been
answered alone, must not fail because of its neighbour. Source: exchanges, by their times.

Threshold: two failures within the same two seconds, both in flight together, at least one of them a request that a
healthy server answers (`expect` is an answer). Refusals and load shedding are no failures.
Noisy when: the server died, which fails all: that it died is another oracle's finding, and what it took is this
one's.
"""

from collections import deque

from kvstress.core.events import Event, RequestSent
from kvstress.core.exchange import Exchange
from kvstress.core.manifest import Manifest
from kvstress.core.outcome import Outcome
from kvstress.core.plan import Expect, Origin
from kvstress.core.verdict import Finding, Verdict
from kvstress.oracles.oracle import found

NAME = "BLAST"

WINDOW = 2.0
_FAILED = frozenset({Outcome.FAILED, Outcome.BROKEN, Outcome.LOST})


class Blast:
    """Keeps the last 64 failures."""

    def __init__(self, manifest: Manifest) -> None:
        del manifest
        self._failures: deque[tuple[Exchange, RequestSent]] = deque(maxlen=64)

    def see(self, event: Event, asked: RequestSent | None) -> tuple[Finding, ...]:
        if not isinstance(event, Exchange) or asked is None or event.outcome not in _FAILED:
            return ()
        if asked.origin is not Origin.STEP:
            return ()
        beside = next((one for one, by in self._failures if _together(one, event) and _innocent(asked, by)), None)
        self._failures.append((event, asked))
        if beside is None:
            return ()
        what = f"{event.request} and {beside.request} failed together within {WINDOW:g} s"
        return (
            found(
                NAME,
                Verdict.FAIL,
                "collateral",
                what,
                asked=asked,
                measured=what,
                limit="the failure of one leaves others alone",
                evidence=(beside.request, event.request),
            ),
        )


def _together(one: Exchange, other: Exchange) -> bool:
    overlap = one.sent < other.ended and other.sent < one.ended
    return one.request != other.request and overlap and abs(one.ended - other.ended) <= WINDOW


def _innocent(one: RequestSent, other: RequestSent) -> bool:
    return Expect.ANSWER in (one.expect, other.expect)
