"""SEQBATCH: is an answer still right when others are computed beside it?

Compares right and wrong (planted codes, promised shapes) of greedy answers in two arms: requests that had the server
to themselves, and requests that ran beside others. Traffic: steps that send a prompt alone and then several at one
moment, or lanes. Source: times of requests, recipes, answers; tokens that differ are batch noise and count nowhere.

Threshold: alone at least 98 % right of eight or more; beside others wrong at least twice and more often than alone
(Fisher p < 0.01).
Noisy when: others use the server, so that nothing runs alone; when load makes answers short (they are not judged).
"""

from kvstress.core.events import Event, RequestSent
from kvstress.core.exchange import Exchange
from kvstress.core.manifest import Manifest
from kvstress.core.plan import Origin
from kvstress.core.verdict import Finding, Verdict
from kvstress.oracles.arms import Arms, Company
from kvstress.oracles.oracle import found
from kvstress.oracles.right import Right

NAME = "SEQBATCH"


class SeqBatch:
    """Keeps four counts."""

    def __init__(self, manifest: Manifest) -> None:
        self._right = Right(manifest)
        self._company = Company()
        self._arms = Arms(level=0.01, least=8)

    def see(self, event: Event, asked: RequestSent | None) -> tuple[Finding, ...]:
        beside = self._company.see(event)
        if not isinstance(event, Exchange) or asked is None or asked.origin is not Origin.STEP:
            return ()
        wrong = self._right.wrong(event, asked)
        if wrong is None or not self._arms.add(beside, wrong):
            return ()
        share = self._arms.words("beside others", "alone")
        what = f"what is answered right alone is answered wrong beside others: {share}; here {event.text[:60]!r}"
        return (
            found(NAME, Verdict.FAIL, "beside others", what, asked=asked, measured=share, limit="as right as alone"),
        )
