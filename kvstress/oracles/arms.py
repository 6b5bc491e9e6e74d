"""Comparing answers: two of one greedy prompt token by token, and right and wrong ones of two arms.

Text says little: two tokens that nearly tie change places with the order of a sum, on healthy servers too. What a
computation that has nothing wrong with it cannot do is to drop a token that was far ahead of the one it says instead.
"""

import math
from dataclasses import dataclass

from kvstress.core.cold import means
from kvstress.core.events import Event, RequestSent, RunEnded, StepStarted
from kvstress.core.exchange import Choice, Exchange
from kvstress.oracles.oracle import options
from kvstress.oracles.shift import fisher

_SOUND = 0.98
# Requests of killed runs never end; more than this are never open.
_MOST_OPEN = 20_000
_PROMPTS = 256
_BIASES = ("logit_bias", "frequency_penalty", "presence_penalty", "repetition_penalty", "response_format", "tools")

Token = tuple[str, float, tuple[tuple[str, float], ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Parting:
    """What two answers differ in over the tokens that both have.

    `place` is the first token that differs, None when none does; `gap` by how many nats the first answer preferred its
    own there (at least; None when it listed no alternatives). `drift` is the largest difference of log-probabilities
    of `compared` equal tokens, `apart` that of the two tokens where they part (at least): both read the same till then.
    """

    place: int | None
    gap: float | None
    drift: float
    compared: int
    apart: float = 0.0


class Company:
    """Tells which requests had the server to themselves, as far as one client knows."""

    def __init__(self) -> None:
        self._open: set[str] = set()
        self._alone: str | None = None

    def see(self, event: Event) -> bool:
        """Take in one event; for an exchange, whether another request was open during it."""
        if isinstance(event, RequestSent):
            self._alone = None if self._open else event.request
            self._open.add(event.request)
        if isinstance(event, StepStarted | RunEnded) and len(self._open) > _MOST_OPEN:
            self._open.clear()
        if not isinstance(event, Exchange):
            return False
        self._open.discard(event.request)
        return self._alone != event.request


def greedy(asked: RequestSent) -> bool:
    """Was the answer to be the likeliest one, with nothing that moves the choice?"""
    wanted = options(asked)
    return wanted.get("temperature") == 0 and not any(wanted.get(name) for name in _BIASES)


def tokens(exchange: Exchange, most: int) -> tuple[Token, ...]:
    """The first answer's tokens, `most` of them, with their log-probabilities, up to the first that is no number."""
    choice = exchange.choices[0] if exchange.choices else Choice(index=0)
    found: list[Token] = []
    for one in (choice.logprobs or ())[:most]:
        if one.logprob is None or not math.isfinite(one.logprob):
            break
        top = tuple((name, value) for name, value in one.top if value is not None and math.isfinite(value))
        found.append((one.token, one.logprob, top))
    return tuple(found)


def parting(one: tuple[Token, ...], other: tuple[Token, ...]) -> Parting:
    """Compare `other` with `one`."""
    drift = 0.0
    for place, ((token, logprob, top), (said, now, listed)) in enumerate(zip(one, other, strict=False)):
        if token != said:
            gap = _ahead(logprob, top, token, said)
            apart = max(_raised(said, now, top), _raised(token, logprob, listed))
            return Parting(place=place, gap=gap, drift=drift, compared=place, apart=apart)
        drift = max(drift, abs(now - logprob))
    return Parting(place=None, gap=None, drift=drift, compared=min(len(one), len(other)))


def _ahead(logprob: float, top: tuple[tuple[str, float], ...], token: str, said: str) -> float | None:
    """By how much `token` was ahead of `said`: what is not listed is behind the last that is."""
    listed = dict(top)
    others = [value for name, value in top if name != token]
    if said in listed:
        return logprob - listed[said]
    return logprob - min(others) if others else None


def _raised(token: str, logprob: float, elsewhere: tuple[tuple[str, float], ...]) -> float:
    """By how much a token's log-probability differs from what the other list says of it: unlisted is below its last."""
    listed = dict(elsewhere)
    if token in listed:
        return abs(logprob - listed[token])
    return max(0.0, logprob - min(listed.values())) if listed else 0.0


class Arms:
    """Right and wrong answers in two arms, the tested and the control.

    The control must be sound (98 % right of `least` or more) before its word counts.
    """

    def __init__(self, *, level: float, least: int) -> None:
        self._level, self._least = level, least
        self._asked = {True: 0, False: 0}
        self._wrong = {True: 0, False: 0}

    def add(self, tested: bool, wrong: bool) -> bool:
        """Count one; whether it is a wrong answer that shows the tested arm to be worse."""
        self._asked[tested] += 1
        self._wrong[tested] += wrong
        sound = self._asked[False] >= self._least and self._wrong[False] <= (1 - _SOUND) * self._asked[False]
        if not (wrong and tested and sound) or self._wrong[True] < 2:
            return False
        return fisher(self._wrong[True], self._asked[True], self._wrong[False], self._asked[False]) < self._level

    @property
    def drop(self) -> float:
        """By how much the tested arm's share of right answers is lower."""
        shares = {arm: self._wrong[arm] / max(1, self._asked[arm]) for arm in (True, False)}
        return shares[True] - shares[False]

    def words(self, tested: str, control: str) -> str:
        return (
            f"{self._wrong[True]} of {self._asked[True]} wrong {tested}, "
            f"{self._wrong[False]} of {self._asked[False]} {control}"
        )


class ColdArm:
    """Prompts whose warm answers were bad, held against the same prompts asked cold after the traffic.

    Where a cold answer is bad too, bad is what this model says, and nothing follows from it.
    """

    def __init__(self) -> None:
        self._bad: dict[str, None] = {}
        self._clean: dict[str, None] = {}
        self._habit = False

    def add(self, asked: RequestSent, bad: bool) -> int:
        """Count one answer; how many prompts are bad warm and clean cold, once they are two, at a cold answer."""
        if means(asked.phase) is None:
            if bad and len(self._bad) < _PROMPTS:
                self._bad[asked.recipe] = None
            return 0
        self._habit = self._habit or bad
        if asked.recipe in self._bad and not bad:
            self._clean[asked.recipe] = None
        return len(self._clean) if len(self._clean) >= 2 and not self._habit else 0
