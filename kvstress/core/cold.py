"""Ways to have a prompt answered without the server's prefix cache: what a warm answer is held against.

The best is another process of the same server that never saw the traffic. Salts, resets and flags are next: they ask
the server under test itself, and could disturb what is tested. Failing all, a prompt's first sending was cold too.
"""

from collections.abc import Mapping
from typing import Any

TWIN = "twin"
# Where nothing is ever cached, a prompt sent again is as cold as one can be, and unlike its first sending alone.
RESENT = "resent"
# What each means in a sentence, from the best to the last.
MEANS: dict[str, str] = {
    TWIN: "a second process of the server, which never saw the traffic (--twin)",
    "salted": "the same server, under a cache salt of its own",
    "reset": "the same server, its prefix cache reset before",
    "uncached": "the same server, asked with cache_prompt false",
    RESENT: "the same server, asked again when the traffic was over, with no token cached",
    "first": "the prompt's first sending in this run",
}
# Cold requests are asides; their phase names the means.
PHASE = "cold-"
PROBE = "cold-probe"


def means(phase: str) -> str | None:
    """How an aside of this phase was made cold; None for any other phase."""
    name = phase.removeprefix(PHASE)
    return name if name in MEANS and phase != name else None


def at_twin(endpoint: str) -> str:
    """The endpoint as it is recorded for a request that went to the twin, not to the server under test."""
    return f"{TWIN}:{endpoint}"


def is_at_twin(endpoint: str) -> bool:
    return endpoint.startswith(f"{TWIN}:")


def without_cache(body: dict[str, Any], how: str, salt: str) -> dict[str, Any]:
    """`body` as it asks not to be answered out of the cache by this means."""
    extra: dict[str, dict[str, Any]] = {"salted": {"cache_salt": salt}, "uncached": {"cache_prompt": False}}
    return body | extra.get(how, {})


def unsalted(options: Mapping[str, Any]) -> dict[str, Any]:
    """What a request asked for beside the means of being cold."""
    return {key: value for key, value in options.items() if key not in ("cache_salt", "cache_prompt")}
