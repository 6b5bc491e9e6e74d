"""CANARY: does the server still know what the prompt told it?

Compares the answer to `What is the code for …?` with the code that the same prompt planted at a tenth, a half or nine
tenths of its length, in two arms: asked cold (a prompt's first sending, or an aside that is asked without the cache)
and asked again, out of the cache. A model that cannot answer cold proves nothing, one that could and no longer can
has lost bytes. Source: the `asks=` words of recipes, from which the code is computed; greedy answers with room for it.

Threshold: cold answers right in 98 %, warm ones wrong at least twice and more often than by chance (Fisher p < 0.01);
or either arm turned from right to wrong (`shift.py`).
Noisy when: a weak model, or a context beyond what it can search (the cold arm shows it); thinking that the cap cuts
off (answers with reasoning and no text are not counted).
"""

from kvstress.core.cold import means
from kvstress.core.events import Event, RequestSent
from kvstress.core.exchange import Exchange
from kvstress.core.manifest import Manifest
from kvstress.core.outcome import Outcome
from kvstress.core.verdict import Finding, Verdict
from kvstress.oracles.ledger import MEMORY
from kvstress.oracles.oracle import found
from kvstress.oracles.recent import Recent
from kvstress.oracles.right import Right
from kvstress.oracles.shift import Shift, fisher

NAME = "CANARY"

_SOUND, _LEVEL = 0.98, 0.01


class Canary:
    """Counts right and wrong in each arm; keeps which recipes were answered (bounded)."""

    def __init__(self, manifest: Manifest) -> None:
        self._right = Right(manifest)
        self._known: Recent[str, None] = Recent()
        self._asked: dict[bool, int] = {True: 0, False: 0}
        self._wrong: dict[bool, int] = {True: 0, False: 0}
        self._shifts = {True: Shift(), False: Shift()}

    def see(self, event: Event, asked: RequestSent | None) -> tuple[Finding, ...]:
        if not isinstance(event, Exchange) or asked is None or event.outcome is not Outcome.COMPLETED:
            return ()
        code = self._right.code(asked)
        if code is None:
            return ()
        cold = asked.recipe not in self._known or means(asked.phase) is not None
        self._known[asked.recipe] = None
        self._known.trim(MEMORY)
        wrong = self._right.wrong(event, asked)
        return () if wrong is None else self._count(cold, wrong, asked, code, event.text)

    def _count(self, cold: bool, wrong: bool, asked: RequestSent, code: str, text: str) -> tuple[Finding, ...]:
        self._asked[cold] += 1
        self._wrong[cold] += wrong
        turned = self._shifts[cold].add(wrong)
        if not wrong or not (turned or self._worse()):
            return ()
        arms = (
            f"{self._wrong[False]} of {self._asked[False]} wrong warm, {self._wrong[True]} of {self._asked[True]} cold"
        )
        what = f"asked for the code {code} that its own prompt told, it said {text[:60]!r} ({arms})"
        return (found(NAME, Verdict.FAIL, "forgot", what, asked=asked, measured=arms, limit="as often right as cold"),)

    def _worse(self) -> bool:
        cold, warm = self._asked[True], self._asked[False]
        sound = cold > 0 and self._wrong[True] <= (1 - _SOUND) * cold
        return sound and self._wrong[False] >= 2 and fisher(self._wrong[False], warm, self._wrong[True], cold) < _LEVEL
