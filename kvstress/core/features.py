"""What a server was seen to offer, because what it offers decides what can be judged on it.

Everything here was asked for and looked at; nothing follows from the engine's name, which is how
testers come to trust a flag that was never on. None is "could not be told".
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Features:
    """Abilities of one server.

    `done`: healthy streams end in `[DONE]`. `cached_tokens`: usage tells them; `hits`: an immediate resend was
    answered from the cache; `salt`, `bypass`: a fresh `cache_salt`, or `cache_prompt: false`, made one cold.
    `shaped` and `tools`: an answer of a promised shape, a forced tool call. `exported` are the canonical metrics
    with a value, `counters` the kinds of engine counters that are there (aborts, drafts, tiers).
    """

    streams: bool | None = None
    done: bool | None = None
    usage: bool | None = None
    cached_tokens: bool | None = None
    hits: bool | None = None
    salt: bool | None = None
    bypass: bool | None = None
    logprobs: bool | None = None
    shaped: bool | None = None
    tools: bool | None = None
    several: bool | None = None
    tokenize: bool | None = None
    health: bool | None = None
    metrics: bool | None = None
    context: bool | None = None
    exported: tuple[str, ...] = ()
    counters: tuple[str, ...] = ()

    def has(self, name: str) -> bool:
        """Whether the ability, the canonical metric or the kind of counter called `name` was seen."""
        return getattr(self, name, None) is True or name in self.exported or name in self.counters
