"""How many tokens of the traffic were new to the server: the client's side of every claim about its pool.

A prompt that was sent before, or whose prefix the server says it had, takes no new room. Each
figure here is a lower bound, so that what is concluded from it (the pool must be full, something
must have gone) can come late but not too early. The exception: prompts that share a prefix, outside
sessions, on a server that does not report cached tokens count in full.
"""

from dataclasses import dataclass
from typing import TypeVar

from kvstress.core.events import Event, RequestSent, RunEnded, StepStarted
from kvstress.core.exchange import Exchange
from kvstress.core.outcome import Outcome
from kvstress.core.plan import Origin
from kvstress.core.sample import Sample
from kvstress.oracles.recent import Recent

# Prompts and sessions remembered; the oldest is forgotten first, and then counts as new.
MEMORY = 65_536
_Value = TypeVar("_Value")
_COUNTERS = (
    "preemptions",
    "evictions",
    "prefix_queries",
    "prefix_hits",
    "prompt_tokens",
    "generation_tokens",
    "requests_completed",
    "requests_failed",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class First:
    """The first sending of a prompt: its step (None outside steps), and the tokens of it that were cached then."""

    step: int | None
    hit: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """A request that ended. `prompt`, `fresh` and `hit` are tokens.

    `fresh`: prompt tokens new to the server plus tokens generated, at least. `hit`: cached tokens as reported, None
    when the server does not report them. `again` is the prompt's first sending when this is not it.
    """

    request: str
    step: int | None
    origin: Origin
    outcome: Outcome
    ended: float
    key: str
    prompt: int | None
    fresh: int
    hit: int | None
    again: First | None
    max_tokens: int | None
    generated: int | None


class Ledger:
    """Joins requests with their answers; `open` holds those in flight. Memory is bounded whatever the run's length."""

    def __init__(self) -> None:
        self.open: dict[str, RequestSent] = {}
        self._prompts: Recent[str, First] = Recent()
        self._sessions: Recent[str, int] = Recent()

    def see(self, event: Event) -> Answered | None:
        """Take in one event; the request that it ended, if it did."""
        if isinstance(event, RequestSent):
            self.open.pop(event.request, None)
            self.open[event.request] = event
            if len(self.open) > MEMORY:
                del self.open[next(iter(self.open))]
        elif isinstance(event, StepStarted) and self.open:
            # A step that starts again (a resumed run) sends its requests anew: those in flight at the kill never end.
            self.open = {name: sent for name, sent in self.open.items() if sent.step != event.step}
        elif isinstance(event, RunEnded):
            self.open.clear()
        elif isinstance(event, Exchange) and (sent := self.open.pop(event.request, None)):
            return self._answered(sent, event)
        return None

    def _answered(self, sent: RequestSent, exchange: Exchange) -> Answered:
        usage = exchange.usage
        key = sent.recipe or sent.body_sha256
        again = self._prompts.get(key)
        hit = usage.cached_tokens if usage else None
        answered = Answered(
            request=sent.request,
            step=sent.step,
            origin=sent.origin,
            outcome=exchange.outcome,
            ended=exchange.ended,
            key=key,
            prompt=usage.prompt_tokens if usage and usage.prompt_tokens is not None else sent.tokens,
            fresh=self._fresh(sent, exchange, again),
            hit=hit,
            again=again,
            max_tokens=sent.max_tokens,
            generated=usage.completion_tokens if usage else None,
        )
        if again is None and exchange.outcome is Outcome.COMPLETED:
            _remember(self._prompts, key, First(step=sent.step, hit=hit))
        return answered

    def _fresh(self, sent: RequestSent, exchange: Exchange, again: First | None) -> int:
        """At least so many tokens took new room. None did for a refusal; nobody knows for what we cancelled."""
        if exchange.outcome in (Outcome.REFUSED, Outcome.CANCELLED):
            return 0
        usage = exchange.usage
        output = (usage.completion_tokens or 0) if usage else 0
        prompt = usage.prompt_tokens if usage and usage.prompt_tokens is not None else sent.tokens
        if prompt is None:
            return max(0, output)
        known = usage.cached_tokens if usage else None
        if known is None and sent.session is not None:
            # A turn repeats its session so far, also where the server does not say that it was cached.
            known = self._sessions.get(sent.session, 0)
            _remember(self._sessions, sent.session, prompt)
        return max(0, 0 if again else prompt - (known or 0)) + max(0, output)


def restarted(before: dict[str, float], sample: Sample) -> bool:
    """Has the server begun anew since `before` (see `totals`)? A later start time or a lower counter says so."""
    now = totals(sample)
    if now.get("process_started", 0.0) - before.get("process_started", now.get("process_started", 0.0)) > 1.0:
        return True
    return any(now[name] < before[name] for name in _COUNTERS if name in now and name in before)


def totals(sample: Sample) -> dict[str, float]:
    """The sample's counters and start time, as far as it has them."""
    values = {name: getattr(sample, name) for name in (*_COUNTERS, "process_started")}
    return {name: value for name, value in values.items() if value is not None}


def _remember(memory: Recent[str, _Value], key: str, value: _Value) -> None:
    memory.pop(key, None)
    memory[key] = value
    memory.trim(MEMORY)
