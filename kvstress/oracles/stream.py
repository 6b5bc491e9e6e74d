"""STREAM: does every 200 stream end as the protocol says it must?

A healthy stream has at least one chunk, one non-null finish reason per choice, `[DONE]`, and no error object. Load
testers that look at the status line count a stream which ended in an error as a success; here everything after the
200 is judged. Oddities that break nothing (an id that changes, chunks after `[DONE]`, a second finish reason) are
noted once each.

Sound always: it is the protocol. Quirks that some servers have by design (an id that
changes with n > 1, chunks after `[DONE]`) are information, not failures. So is a server that
never sends `[DONE]`: a short sizing request that ends without it, finish reason and all, shows the
habit, and from then on the finish reason alone tells a whole stream.
Threshold: none; one is enough. Noisy when: nothing; what servers do by habit is learnt or noted.
"""

from kvstress.core.events import Event, RequestSent
from kvstress.core.exchange import Exchange
from kvstress.core.manifest import Manifest
from kvstress.core.outcome import Kind, Outcome
from kvstress.core.plan import Origin
from kvstress.core.verdict import Finding, Verdict
from kvstress.core.words import identity
from kvstress.oracles.oracle import about, found, said

NAME = "STREAM"

_MOST_ODDITIES = 64

_ALWAYS = frozenset({Kind.STREAM_ERROR, Kind.MISSING_DONE})
_WHAT = {
    Kind.STREAM_ERROR: "the stream carried an error",
    Kind.MISSING_DONE: "the stream ended without [DONE]",
    Kind.MISSING_FINISH: "the stream ended without a finish reason",
}


def is_about_the_stream(exchange: Exchange) -> bool:
    """True when a BROKEN exchange broke inside a 200 stream that had begun; STATUS judges all the others."""
    if exchange.kind in _ALWAYS:
        return True
    begun = bool(exchange.chunk_at) or any(violation.startswith("stream:") for violation in exchange.violations)
    return exchange.outcome is Outcome.BROKEN and exchange.status == 200 and begun


class Stream:
    """Every exchange is judged alone; which oddities were told is kept."""

    def __init__(self, manifest: Manifest) -> None:
        del manifest
        self._told: set[str] = set()

    def see(self, event: Event, asked: RequestSent | None) -> tuple[Finding, ...]:
        if not isinstance(event, Exchange) or asked is None:
            return ()
        if not is_about_the_stream(event):
            return self._oddities(event, asked) if event.outcome is Outcome.COMPLETED else ()
        if event.kind is Kind.MISSING_DONE and asked.origin is Origin.SIZING and event.finished:
            return (about(NAME, Verdict.PASS, event, asked, "this server ends its healthy streams without [DONE]"),)
        chunks = len(event.chunk_at)
        what = _WHAT.get(event.kind, f"the stream broke ({event.kind.value})")
        summary = f"HTTP 200, then after {chunks} content chunks {what}; {said(event)}"
        return (about(NAME, Verdict.FAIL, event, asked, summary, "one finish reason, then [DONE]"),)

    def _oddities(self, event: Exchange, asked: RequestSent) -> tuple[Finding, ...]:
        new = [odd for odd in event.violations if odd.startswith("stream:") and odd not in self._told]
        if len(self._told) > _MOST_ODDITIES:
            return ()
        self._told.update(new)
        told = (odd.removeprefix("stream: ") for odd in new)
        return tuple(found(NAME, Verdict.PASS, identity(odd), f"not as usual: {odd}", asked=asked) for odd in told)
