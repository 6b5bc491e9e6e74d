"""LOGPROB: are the log-probabilities ones that a softmax can give?

Compares each with what any distribution allows: the chosen token's is a finite number ≤ 0, alternatives are no NaN and
not above 0, exp of the alternatives sums to at most 1, under greedy sampling the chosen token is the best one listed,
and it has the value of its own entry. Source: `logprobs` as received, and the bytes of answers that did not parse for
a NaN.

Threshold: 1e-6 above 0, 1e-3 above a sum of 1, 0.01 nat between chosen and best; one is enough. The mean of an answer
counts only against this server's own: below −6 over 32 tokens where first sends stayed above −4, or of two prompts
that are above it when they are asked cold.
Noisy when: a server lists masked tokens as −inf or −9999 (legal, for alternatives); when penalties or a bias move the
choice (then nothing is compared with the best); when each token is uniform, as with dummy weights (then the mean was
low from the first answer on).
"""

import math
from collections.abc import Iterator

from kvstress.core.cold import means
from kvstress.core.events import Event, RequestSent
from kvstress.core.exchange import Choice, Exchange, TokenLogprob
from kvstress.core.manifest import Manifest
from kvstress.core.outcome import Kind, Outcome
from kvstress.core.verdict import Finding, Verdict
from kvstress.oracles.arms import ColdArm
from kvstress.oracles.oracle import found, options

NAME = "LOGPROB"

_MASKED = -9_000.0
_LOW, _SOUND, _TOKENS, _COLD = -6.0, -4.0, 32, 3
_BIASES = ("logit_bias", "frequency_penalty", "presence_penalty", "repetition_penalty", "response_format", "tools")


class Logprob:
    """Keeps how many long answers had a sound mean before any had a low one."""

    def __init__(self, manifest: Manifest) -> None:
        del manifest
        self._sound = 0
        self._low = False
        self._cold = ColdArm()

    def see(self, event: Event, asked: RequestSent | None) -> tuple[Finding, ...]:
        if not isinstance(event, Exchange) or asked is None:
            return ()
        if event.kind is Kind.MALFORMED and _spoilt(event):
            what = "a log-probability is the literal NaN or Infinity, which is no JSON"
            return (found(NAME, Verdict.FAIL, "no number", what, asked=asked, measured="NaN", limit="a number"),)
        if event.outcome is not Outcome.COMPLETED:
            return ()
        wanted = options(asked)
        greedy = wanted.get("temperature") == 0 and not any(wanted.get(name) for name in _BIASES)
        wrong: dict[str, str] = {}
        for choice in event.choices:
            for key, what in (*_tokens(choice, greedy), *self._mean(choice, asked)):
                wrong.setdefault(key, what)
        return tuple(found(NAME, Verdict.FAIL, key, what, asked=asked, measured=what) for key, what in wrong.items())

    def _mean(self, choice: Choice, asked: RequestSent) -> Iterator[tuple[str, str]]:
        values = [token.logprob for token in choice.logprobs or () if token.logprob is not None]
        if len(values) < _TOKENS or not all(map(math.isfinite, values)):
            return
        mean = sum(values) / len(values)
        if against := self._cold.add(asked, mean < _LOW):
            yield "mean", f"{against} prompts have a mean log-probability below {_LOW:g} warm and not when asked cold"
        if means(asked.phase) is not None:
            return
        self._low = self._low or (mean < _LOW and self._sound < _COLD)
        self._sound += mean > _SOUND
        if mean < _LOW and not self._low:
            yield "mean", f"the mean log-probability fell to {mean:.2f} over {len(values)} tokens, near a uniform guess"


def _spoilt(exchange: Exchange) -> bool:
    said = exchange.error_bytes or ""
    return "logprob" in said and any(word in said for word in (":NaN", ": NaN", ":Infinity", ":-Infinity"))


def _tokens(choice: Choice, greedy: bool) -> Iterator[tuple[str, str]]:
    for place, token in enumerate(choice.logprobs or ()):
        yield from ((key, f"token {place} {what}") for key, what in _token(token, greedy))


def _token(token: TokenLogprob, greedy: bool) -> Iterator[tuple[str, str]]:
    chosen = token.logprob
    if chosen is None or not math.isfinite(chosen) or chosen < _MASKED:
        yield "chosen", f"has the log-probability {chosen}"
        return
    listed = [(name, value) for name, value in token.top if value is not None]
    if chosen > 1e-6 or any(math.isnan(value) or value > 1e-6 for _, value in listed):
        yield "above 0", "has a log-probability above 0 or NaN"
        return
    # Some servers list the chosen token twice, once in its place and once because it was chosen.
    total = sum(math.exp(value) for _, value in set(listed))
    if total > 1.001:
        yield "sum", f"has alternatives whose probabilities sum to {total:.4f}"
    best = max((value for _, value in listed), default=chosen)
    if greedy and best > chosen + 0.01:
        yield "not the best", f"was chosen greedily at {chosen:.3f} though {best:.3f} was there"
    own = [value for name, value in listed if name == token.token]
    if own and min(abs(value - chosen) for value in own) > 0.01:
        yield "own entry", f"is {chosen:.3f} and {own[0]:.3f} in its own list"
