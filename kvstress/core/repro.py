"""A reproducer: what to send to a fresh server, the failure to expect, and on which server it was seen.

It is what is handed to somebody else, so it holds no key, no header and, unless that was asked for, no text of a
private data set.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kvstress.core.case import Case, Size

REPRO_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """What is expected to go wrong. `signature` identifies it; `words` are the server's own, None when it said none.

    `also` are other signatures of it: the same traffic was once more sent, and failed at the same place with these.
    """

    signature: str
    oracle: str
    summary: str
    phase: str | None = None
    words: str | None = None
    also: tuple[str, ...] = ()

    @property
    def signatures(self) -> frozenset[str]:
        """All of them."""
        return frozenset((self.signature, *self.also))


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Where the failure was seen: the run, what judged it, and the server.

    `aside` are the workload's settings of what is asked after the traffic, where the failure was only seen then.
    `planned` are prompt tokens as the run planned them, by the digest of the one text that the prompt consists of.
    `capacity` is the KV pool in tokens at the failure; `knob` and `value` the launch option that was made smaller.
    """

    kvstress: str
    run: str
    workload: str
    hunts: str
    seed: int
    content: str
    oracles: tuple[str, ...]
    timeout: float
    time_scale: float = 1.0
    sends_done: bool | None = None
    planned: Mapping[str, int] = field(default_factory=dict)
    aside: Mapping[str, Any] | None = None
    model: str | None = None
    software: str | None = None
    dialect: str | None = None
    context_limit: int | None = None
    embedded: bool = False
    launched: str | None = None
    knob: str | None = None
    value: str | None = None
    capacity: float | None = None
    commit: str | None = None
    hardware: str | None = None
    host: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reproducer:
    """`case` failed in `failed` of `probes` probes; `before` and `after` are its sizes; `launches` what it took.

    `withheld` names texts that are private and were left out: with them missing, it cannot be sent.
    """

    schema_version: int = REPRO_VERSION
    failure: Failure
    facts: Facts
    case: Case
    failed: int
    probes: int
    before: Size
    after: Size
    launches: int
    withheld: tuple[str, ...] = ()
