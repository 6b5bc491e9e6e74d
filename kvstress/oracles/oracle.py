"""What an oracle is: something that sees events in order and says what it found.

For an `Exchange` the judge also passes the request it answers, because an exchange holds
wire facts only and most questions are about what was asked.
"""

import json
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Protocol

from kvstress.core.events import Event, RequestSent
from kvstress.core.exchange import Exchange
from kvstress.core.manifest import Manifest
from kvstress.core.verdict import Finding, Verdict
from kvstress.core.words import identity


class Oracle(Protocol):
    """A fold over events. `asked` is the request of an `Exchange`, None with every other event."""

    def see(self, event: Event, asked: RequestSent | None) -> tuple[Finding, ...]:
        """Take in one event; return what it proves."""
        ...


OracleMaker = Callable[[Manifest], Oracle]


def about(
    oracle: str, verdict: Verdict, exchange: Exchange, asked: RequestSent, summary: str, limit: str | None = None
) -> Finding:
    """A finding about one exchange; its signature is oracle, kind, status and the identity of the server's words."""
    status = "-" if exchange.status is None else str(exchange.status)
    words = identity(exchange.server_words or "")
    return Finding(
        oracle=oracle,
        verdict=verdict,
        signature=f"{oracle}:{exchange.kind.value}:{status}:{words}".rstrip(":"),
        step=asked.step,
        phase=asked.phase,
        summary=summary,
        measured=exchange.kind.value if exchange.status is None else f"{exchange.kind.value}, HTTP {exchange.status}",
        limit=limit,
        evidence=(exchange.request,),
    )


def found(
    oracle: str,
    verdict: Verdict,
    key: str,
    summary: str,
    *,
    asked: RequestSent | None = None,
    step: int | None = None,
    measured: str | None = None,
    limit: str | None = None,
    evidence: tuple[str, ...] = (),
) -> Finding:
    """A finding whose identity is `key`, a few words without numbers: the same fault must give the same signature.

    `step` dates a finding that is about no request.
    """
    return Finding(
        oracle=oracle,
        verdict=verdict,
        signature=f"{oracle}:{key}",
        step=asked.step if asked else step,
        phase=asked.phase if asked else None,
        summary=summary,
        measured=measured,
        limit=limit,
        evidence=evidence or ((asked.request,) if asked else ()),
    )


def patience(manifest: Manifest, seconds: float, *, least: float) -> float:
    """`seconds` of waiting by the run's time scale, but no shorter than a busy machine may take over nothing."""
    return max(seconds * manifest.time_scale, least)


def options(asked: RequestSent) -> Mapping[str, Any]:
    """What the request asked for beside its prompt; empty where it was not recorded. Not to be changed."""
    return _read(asked.options)


@lru_cache(maxsize=64)
def _read(text: str) -> Mapping[str, Any]:
    """Kept, because the requests of a phase say the same and nine oracles ask about each of them."""
    try:
        read = json.loads(text) if text else {}
    except ValueError:
        return {}
    return read if isinstance(read, dict) else {}


def said(exchange: Exchange) -> str:
    """What the server said, quoted for a summary, or that it said nothing."""
    words = " ".join((exchange.server_words or "").split())
    return f"the server said: {words[:300]}" if words else "the server said nothing"
