"""ADMIT: is a prompt that cannot fit refused, or answered, and nothing else?

Compares what became of a prompt over the context or the pool (or one whose workload allows a refusal) with the two
right answers: a clean 4xx, or a completion of the whole prompt. Silence, a 5xx, an empty success and a prompt that
was cut without a word are the bugs. Source: the announced context, the capacity that samples tell, planned sizes,
exchanges.

Threshold: one is enough. Silence is the run's own deadline.
Noisy when: a server cuts prompts by a documented option; when its capacity counts something else than tokens (then
only the announced context is a limit).
"""

from kvstress.core.events import Event, RequestSent, ServerChange, ServerEvent
from kvstress.core.exchange import Exchange
from kvstress.core.manifest import Manifest
from kvstress.core.outcome import Outcome
from kvstress.core.plan import Expect, Origin
from kvstress.core.sample import Sample
from kvstress.core.verdict import Finding, Verdict
from kvstress.oracles.oracle import found

NAME = "ADMIT"

_WHOLE = 0.9


class Admit:
    """Keeps the announced context and the largest capacity told."""

    def __init__(self, manifest: Manifest) -> None:
        del manifest
        self._context: int | None = None
        self._capacity: float | None = None

    def see(self, event: Event, asked: RequestSent | None) -> tuple[Finding, ...]:
        if isinstance(event, ServerEvent) and event.change is ServerChange.LIMIT:
            self._context = event.tokens
        if isinstance(event, Sample) and event.kv_capacity is not None:
            self._capacity = max(self._capacity or 0.0, event.kv_capacity)
        if not isinstance(event, Exchange) or asked is None or asked.origin is not Origin.STEP or not self._over(asked):
            return ()
        what = _wrong(event, asked)
        if what is None:
            return ()
        key, words = what
        size = "of unknown size" if asked.tokens is None else f"of {asked.tokens:,} tokens"
        summary = f"a prompt {size}, over {self._limits()}, {words}"
        return (
            found(NAME, Verdict.FAIL, key, summary, asked=asked, measured=words, limit="refused, or answered whole"),
        )

    def _over(self, asked: RequestSent) -> bool:
        limits = [limit for limit in (self._context, self._capacity) if limit]
        return asked.tokens is not None and any(asked.tokens > limit for limit in limits)

    def _limits(self) -> str:
        told = {"a context": self._context, "a pool": self._capacity}
        return " and ".join(f"{name} of {limit:,.0f}" for name, limit in told.items() if limit)


def _wrong(exchange: Exchange, asked: RequestSent) -> tuple[str, str] | None:
    match exchange.outcome:
        case Outcome.LOST:
            return "never answered", "was neither refused nor answered"
        case Outcome.FAILED | Outcome.BROKEN:
            return "broke", f"ended in {exchange.kind.value} instead of a refusal"
        case Outcome.COMPLETED:
            return _completed(exchange, asked)
    return None


def _completed(exchange: Exchange, asked: RequestSent) -> tuple[str, str] | None:
    usage = exchange.usage
    if usage is not None and usage.prompt_tokens is not None and usage.prompt_tokens < _WHOLE * (asked.tokens or 0):
        return "cut", f"was answered as one of {usage.prompt_tokens:,}"
    said = any(choice.text or choice.reasoning or choice.tool_calls for choice in exchange.choices)
    if usage is not None and usage.completion_tokens == 0 and not said and asked.expect is Expect.ANSWER:
        return "empty success", "was answered with nothing"
    return None
