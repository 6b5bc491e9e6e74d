"""ORDER: does an answer depend on what was asked before it?

Compares greedy answers to one prompt, each alone on the server, by the prompt that came just before: after the same
one they must agree, and after another one as well. Traffic: a set of prompts sent in rounds whose orders take turns
(source `rounds`). Source: recipes, answers; log-probabilities where there are any.

Threshold: two answers disagree where one has the planted code and the other has not, or where they part at a token
that one preferred by more than 0.5 nat, or by more than 1 nat in a log-probability. A prompt's answers after different
predecessors disagree at least three times, and more often than those after the same one (Fisher p < 0.01).
Noisy when: batch noise (only requests alone are compared); a first sending is cold and is left out; damage that comes
at random disagrees after the same predecessor too and is no order.
"""

from collections import deque
from dataclasses import dataclass, field

from kvstress.core.events import Event, RequestSent
from kvstress.core.exchange import Exchange
from kvstress.core.manifest import Manifest
from kvstress.core.outcome import Outcome
from kvstress.core.plan import Origin
from kvstress.core.verdict import Finding, Verdict
from kvstress.oracles.arms import Company, Token, greedy, parting, tokens
from kvstress.oracles.oracle import found
from kvstress.oracles.right import Right
from kvstress.oracles.shift import fisher

NAME = "ORDER"

_GAP, _DRIFT, _LEAST, _LEVEL = 0.5, 1.0, 3, 0.01
_PROMPTS, _BACK, _TOKENS = 256, 2, 128


@dataclass(frozen=True, slots=True, kw_only=True)
class _Said:
    after: str
    wrong: bool | None
    tokens: tuple[Token, ...]


@dataclass(slots=True)
class _Pairs:
    """`disagree` of `compared` pairs."""

    compared: int = 0
    disagree: int = 0


@dataclass(slots=True)
class _Arms:
    same: _Pairs = field(default_factory=_Pairs)
    other: _Pairs = field(default_factory=_Pairs)


class Order:
    """Keeps the last two answers to each of 256 prompts, the prompt before, and four counts."""

    def __init__(self, manifest: Manifest) -> None:
        self._right = Right(manifest)
        self._company = Company()
        self._said: dict[str, deque[_Said]] = {}
        self._before: dict[str, str] = {}
        self._last = ""
        self._arms = _Arms()

    def see(self, event: Event, asked: RequestSent | None) -> tuple[Finding, ...]:
        beside = self._company.see(event)
        if isinstance(event, RequestSent):
            self._before = {event.request: self._last} if not self._before else self._before | {event.request: ""}
            self._last = event.recipe
        if not isinstance(event, Exchange) or asked is None:
            return ()
        after = self._before.pop(event.request, "")
        if event.outcome is not Outcome.COMPLETED or asked.origin is not Origin.STEP or not asked.recipe:
            return ()
        known = self._said.pop(asked.recipe, None)
        self._said[asked.recipe] = deque(maxlen=_BACK) if known is None else known
        if len(self._said) > _PROMPTS:
            del self._said[next(iter(self._said))]
        if known is None or beside or not after or not greedy(asked):
            return ()
        return self._compare(
            known, _Said(after=after, wrong=self._right.wrong(event, asked), tokens=tokens(event, _TOKENS)), asked
        )

    def _compare(self, known: deque[_Said], one: _Said, asked: RequestSent) -> tuple[Finding, ...]:
        new = False
        for other in known:
            unlike = _disagree(other, one)
            if unlike is None:
                continue
            pairs = self._arms.same if other.after == one.after else self._arms.other
            pairs.compared += 1
            pairs.disagree += unlike
            new = new or (unlike and pairs is self._arms.other)
        known.append(one)
        return self._judged(asked) if new else ()

    def _judged(self, asked: RequestSent) -> tuple[Finding, ...]:
        same, other = self._arms.same, self._arms.other
        if other.disagree < _LEAST or not same.compared:
            return ()
        if fisher(other.disagree, other.compared, same.disagree, same.compared) >= _LEVEL:
            return ()
        share = (
            f"{other.disagree} of {other.compared} pairs of answers after different prompts disagree, "
            f"{same.disagree} of {same.compared} after the same"
        )
        what = f"the answer to a prompt depends on the prompt before it: {share}"
        limit = "as seldom as after the same prompt"
        return (found(NAME, Verdict.FAIL, "depends on order", what, asked=asked, measured=share, limit=limit),)


def _disagree(one: _Said, other: _Said) -> bool | None:
    """None where the two cannot be compared."""
    if one.tokens and other.tokens:
        between = parting(one.tokens, other.tokens)
        return (between.gap or 0.0) > _GAP or max(between.drift, between.apart) > _DRIFT
    return None if one.wrong is None or other.wrong is None else one.wrong != other.wrong
