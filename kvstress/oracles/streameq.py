"""STREAMEQ: is a streamed answer the answer that is given whole?

Compares greedy answers to one prompt in both transports. Traffic: steps that send a prompt whole, streamed and whole
again, all but the first sending (a cold one may differ by itself). Source: text, finish reason, `usage`.

Threshold: equal text with another finish reason or other token counts: one is enough. Other text counts where the two
whole answers around a streamed one agree: at least three times, and more often than whole answers differ from each
other (Fisher p < 0.01). A character lost on one side only (U+FFFD) is noted.
Noisy when: other requests run beside, because batches round differently (such answers are not compared).
"""

from collections.abc import Iterator
from dataclasses import dataclass

from kvstress.core.events import Event, RequestSent
from kvstress.core.exchange import Choice, Exchange
from kvstress.core.manifest import Manifest
from kvstress.core.outcome import Outcome
from kvstress.core.plan import Origin
from kvstress.core.verdict import Finding, Verdict
from kvstress.oracles.arms import Company, greedy
from kvstress.oracles.oracle import found, options
from kvstress.oracles.shift import fisher

NAME = "STREAMEQ"

_LEAST, _LEVEL = 3, 0.01
_PROMPTS = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class _Said:
    asked: RequestSent
    choice: Choice
    tokens: tuple[int | None, int | None]


class StreamEq:
    """Keeps the last whole and the last streamed answer of 512 prompts, and four counts."""

    def __init__(self, manifest: Manifest) -> None:
        del manifest
        self._company = Company()
        self._whole: dict[str, _Said | None] = {}
        self._streamed: dict[str, _Said] = {}
        self._differ, self._compared = 0, 0
        self._noise, self._pairs = 0, 0

    def see(self, event: Event, asked: RequestSent | None) -> tuple[Finding, ...]:
        beside = self._company.see(event)
        if not isinstance(event, Exchange) or asked is None or event.outcome is not Outcome.COMPLETED:
            return ()
        if asked.origin is not Origin.STEP or not asked.recipe or not greedy(asked) or len(event.choices) != 1:
            return ()
        key = f"{asked.recipe} {asked.max_tokens} {sorted(options(asked).items())}"
        if key not in self._whole:
            self._remember(key)
            return ()
        usage = event.usage
        counts = (usage.prompt_tokens, usage.completion_tokens) if usage else (None, None)
        one = _Said(asked=asked, choice=event.choices[0], tokens=counts)
        return () if beside else tuple(self._next(key, one))

    def _remember(self, key: str) -> None:
        """The first sending of a prompt: seen, and not compared."""
        self._whole[key] = None
        if len(self._whole) > _PROMPTS:
            oldest = next(iter(self._whole))
            del self._whole[oldest]
            self._streamed.pop(oldest, None)

    def _next(self, key: str, one: _Said) -> Iterator[Finding]:
        whole = self._whole[key]
        if one.asked.stream:
            self._streamed[key] = one
            if whole is not None and one.choice.text == whole.choice.text:
                yield from _same_text(whole, one)
            return
        between = self._streamed.pop(key, None)
        self._whole[key] = one
        if whole is None:
            return
        self._pairs += 1
        self._noise += whole.choice.text != one.choice.text
        if between is not None and whole.choice.text == one.choice.text:
            yield from self._between(one, between)

    def _between(self, whole: _Said, streamed: _Said) -> Iterator[Finding]:
        self._compared += 1
        if whole.choice.text == streamed.choice.text:
            return
        self._differ += 1
        share = f"{self._differ} of {self._compared} streamed answers"
        lost = ("�" in streamed.choice.text) != ("�" in whole.choice.text)
        what = f"streamed it said {_around(streamed, whole)!r}, whole it said {_around(whole, streamed)!r}"
        if self._differ >= _LEAST and fisher(self._differ, self._compared, self._noise, self._pairs) < _LEVEL:
            limit = f"as seldom as whole answers differ ({self._noise} of {self._pairs})"
            said = f"{what} ({share})"
            yield found(NAME, Verdict.FAIL, "text", said, asked=streamed.asked, measured=share, limit=limit)
        elif lost:
            yield found(NAME, Verdict.PASS, "lost character", what, asked=streamed.asked, measured=share)


def _same_text(whole: _Said, streamed: _Said) -> Iterator[Finding]:
    pairs = (
        ("finish reason", whole.choice.finish_reason, streamed.choice.finish_reason),
        ("prompt tokens", whole.tokens[0], streamed.tokens[0]),
        ("completion tokens", whole.tokens[1], streamed.tokens[1]),
        ("tool calls", bool(whole.choice.tool_calls), bool(streamed.choice.tool_calls)),
    )
    for name, one, other in pairs:
        if None not in (one, other) and one != other:
            what = f"the same text has the {name} {other} when it is streamed and {one} when it is not"
            yield found(NAME, Verdict.FAIL, name, what, asked=streamed.asked, measured=str(other), limit=str(one))


def _around(one: _Said, other: _Said) -> str:
    """A few characters around the first that differs."""
    text, against = one.choice.text, other.choice.text
    place = next((n for n, pair in enumerate(zip(text, against, strict=False)) if pair[0] != pair[1]), len(against))
    return text[max(0, place - 12) : place + 24]
