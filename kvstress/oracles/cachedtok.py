"""CACHEDTOK: can the server have had the tokens that it says it took from its cache?

Compares `cached_tokens` of a prompt's first sending with the most that it can share with anything sent before. A
prompt that kvstress generated differs from all others in its first token, so it shares the chat template at most, and
no template is longer than the shortest prompt that was counted. Source: `usage`, recipes, and sizing requests.

Threshold: above the shortest prompt seen, and above 64 tokens: one is enough, for the tokens were never sent. That
resends stop hitting is noted, not failed: eviction, a block size above the prompt, and a flag that is off all look
the same, and slow is not wrong.
Noisy when: the same seed was sent to the same server before (so it counts only on one that started in this run, or
whose counters began at 0); when a server counts its own system prompt; when prompts came from a dataset (these are
not looked at).
"""

import re

from kvstress.core.events import Event, RequestSent, ServerChange, ServerEvent
from kvstress.core.exchange import Exchange
from kvstress.core.manifest import Manifest
from kvstress.core.outcome import Outcome
from kvstress.core.sample import Sample
from kvstress.core.verdict import Finding, Verdict
from kvstress.oracles.ledger import MEMORY
from kvstress.oracles.oracle import found

NAME = "CACHEDTOK"

_UNIQUE = re.compile(r"(?:generated|sizing) text (\S+)")
_ROOM, _MISSES = 64, 5


class CachedTokens:
    """Keeps the keys of recent prompts (bounded), the shortest prompt, and misses of immediate resends in a row."""

    def __init__(self, manifest: Manifest) -> None:
        del manifest
        self._known: dict[str, bool] = {}
        self._first: set[str] = set()
        self._shortest: int | None = None
        self._fresh = False
        self._previous: str | None = None
        self._hit_once = False
        self._misses = 0

    def see(self, event: Event, asked: RequestSent | None) -> tuple[Finding, ...]:
        if isinstance(event, RequestSent):
            self._sent(event)
            return ()
        if isinstance(event, ServerEvent) and event.change is ServerChange.STARTED:
            self._fresh = True
        if isinstance(event, Sample) and event.why == "start" and event.prompt_tokens == 0:
            self._fresh = True
        if not isinstance(event, Exchange) or asked is None:
            return ()
        first = asked.request in self._first
        self._first.discard(asked.request)
        usage = event.usage if event.outcome is Outcome.COMPLETED else None
        if usage is None or usage.prompt_tokens is None:
            return ()
        findings = self._upper(asked, usage.cached_tokens, usage.prompt_tokens) if first else ()
        self._shortest = min(self._shortest or usage.prompt_tokens, usage.prompt_tokens)
        return findings + self._resent(asked, usage.cached_tokens, usage.prompt_tokens)

    def _sent(self, sent: RequestSent) -> None:
        unique = _UNIQUE.match(sent.recipe)
        if unique is None or sent.session is not None:
            return
        # A resumed run sends the request that was in flight at the kill once more, under the same id.
        if unique[1] in self._known:
            self._first.discard(sent.request)
        else:
            self._first.add(sent.request)
        self._known[unique[1]] = True
        for memory in (self._known, self._first):
            if len(memory) > MEMORY:
                oldest = next(iter(memory))
                self._known.pop(oldest, None)
                self._first.discard(oldest)

    def _upper(self, asked: RequestSent, cached: int | None, prompt: int) -> tuple[Finding, ...]:
        most = max(_ROOM, self._shortest or prompt)
        if cached is None or cached <= most:
            return ()
        what = f"{cached:,} tokens cached of a prompt that was never sent before and shares its template at most"
        # A server that ran before may have met the same seed.
        verdict = Verdict.FAIL if self._fresh else Verdict.PASS
        limit = f"at most {most:,} tokens"
        return (found(NAME, verdict, "never sent", what, asked=asked, measured=f"{cached:,} tokens", limit=limit),)

    def _resent(self, asked: RequestSent, cached: int | None, prompt: int) -> tuple[Finding, ...]:
        again, self._previous = self._previous == asked.recipe, asked.recipe
        if not again or cached is None or not asked.recipe:
            return ()
        self._hit_once = self._hit_once or cached * 10 >= prompt
        self._misses = self._misses + 1 if cached == 0 else 0
        if self._misses != _MISSES or not self._hit_once:
            return ()
        what = f"{_MISSES} immediate resends in a row took nothing from the cache, though earlier ones did"
        return (found(NAME, Verdict.PASS, "stopped hitting", what, asked=asked, measured=what),)
