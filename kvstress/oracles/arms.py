"""Two answers to one greedy prompt, token by token: where they part, and how sure the first one was there.

Text says little: two tokens that nearly tie change places with the order of a sum, on healthy servers too. What a
computation that has nothing wrong with it cannot do is to drop a token that was far ahead of the one it says instead.
"""

import math
from dataclasses import dataclass

from kvstress.core.events import Event, RequestSent, RunEnded, StepStarted
from kvstress.core.exchange import Choice, Exchange
from kvstress.oracles.oracle import options

MOST_TOKENS = 128
# Requests of killed runs never end; more than this are never open.
_MOST_OPEN = 20_000
_BIASES = ("logit_bias", "frequency_penalty", "presence_penalty", "repetition_penalty", "response_format", "tools")

Token = tuple[str, float, tuple[tuple[str, float], ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Parting:
    """What two answers differ in over the tokens that both have.

    `place` is the first token that differs, None when none does; `gap` by how many nats the first answer preferred its
    own there (at least; None when it listed no alternatives). `drift` is the largest difference of log-probabilities
    before, `compared` how many tokens that were.
    """

    place: int | None
    gap: float | None
    drift: float
    compared: int


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


def tokens(exchange: Exchange) -> tuple[Token, ...]:
    """The first answer's tokens with their log-probabilities, up to the first that is no number."""
    choice = exchange.choices[0] if exchange.choices else Choice(index=0)
    found: list[Token] = []
    for one in (choice.logprobs or ())[:MOST_TOKENS]:
        if one.logprob is None or not math.isfinite(one.logprob):
            break
        top = tuple((name, value) for name, value in one.top if value is not None and math.isfinite(value))
        found.append((one.token, one.logprob, top))
    return tuple(found)


def parting(one: tuple[Token, ...], other: tuple[Token, ...]) -> Parting:
    """Compare `other` with `one`."""
    drift = 0.0
    for place, ((token, logprob, top), (said, now, _)) in enumerate(zip(one, other, strict=False)):
        if token != said:
            return Parting(place=place, gap=_ahead(logprob, top, token, said), drift=drift, compared=place)
        drift = max(drift, abs(now - logprob))
    return Parting(place=None, gap=None, drift=drift, compared=min(len(one), len(other)))


def _ahead(logprob: float, top: tuple[tuple[str, float], ...], token: str, said: str) -> float | None:
    """By how much `token` was ahead of `said`: what is not listed is behind the last that is."""
    listed = dict(top)
    others = [value for name, value in top if name != token]
    if said in listed:
        return logprob - listed[said]
    return logprob - min(others) if others else None
