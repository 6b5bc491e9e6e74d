"""EMPTY: is an answer that counts tokens one that says something?

Compares the text, reasoning and tool calls of a completed answer with its finish reason and its count of tokens: tokens
that were counted and not sent are lost output. Source: completed answers.

Threshold: eight tokens or more with nothing said; or `length` with a count of 0. Under a promise of one forced word,
one is enough. An answer that ends at once with `stop` is a model's habit unless it begins to happen: then as DEGEN
judges.
Noisy when: a few tokens are special ones that servers do not print, or the first bytes of a character; when a server
hides its reasoning but counts it (`reasoning_tokens` explains those).
"""

from kvstress.core.events import Event, RequestSent
from kvstress.core.exchange import Exchange
from kvstress.core.manifest import Manifest
from kvstress.core.outcome import Outcome
from kvstress.core.verdict import Finding, Verdict
from kvstress.oracles.oracle import found
from kvstress.oracles.shift import Shift

NAME = "EMPTY"

_TOKENS = 8


class Empty:
    """Counts answers that said something before and since the first that did not."""

    def __init__(self, manifest: Manifest) -> None:
        del manifest
        self._stops = Shift()

    def see(self, event: Event, asked: RequestSent | None) -> tuple[Finding, ...]:
        if not isinstance(event, Exchange) or asked is None or event.outcome is not Outcome.COMPLETED:
            return ()
        silent = [choice for choice in event.choices if not (choice.text or choice.reasoning or choice.tool_calls)]
        tokens = event.usage.completion_tokens if event.usage else None
        hidden = (event.usage.reasoning_tokens or 0) if event.usage else 0
        all_silent = bool(silent) and len(silent) == len(event.choices)
        if all_silent and tokens is not None and tokens - hidden >= _TOKENS:
            what = f"{tokens} tokens were counted and none was sent"
            return (found(NAME, Verdict.FAIL, "nothing said", what, asked=asked, measured=what, limit="some content"),)
        if all_silent and tokens == 0 and silent[0].finish_reason == "length":
            what = "finish reason length with no token at all"
            return (found(NAME, Verdict.FAIL, "length of nothing", what, asked=asked, measured=what),)
        return self._stopped(all_silent, asked)

    def _stopped(self, silent: bool, asked: RequestSent) -> tuple[Finding, ...]:
        if (asked.max_tokens or _TOKENS) < _TOKENS or not self._stops.add(silent):
            return ()
        what = (
            f"{self._stops.bad} of the last {self._stops.since} answers are empty, none of {self._stops.clean} before"
        )
        return (found(NAME, Verdict.FAIL, "became empty", what, asked=asked, measured=what, limit="Fisher p < 0.001"),)
