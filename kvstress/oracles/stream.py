"""STREAM: does every 200 stream end as the protocol says it must?

A healthy stream has at least one chunk, one non-null finish reason per choice, `[DONE]`,
and no error object. Load testers that look at the status line count a stream which ended in
an error as a success; here everything after the 200 is judged.

Sound always: it is the protocol. Quirks that some servers have by design (an id that
changes with n > 1, chunks after `[DONE]`) are information, not failures. So is a server that
never sends `[DONE]`: a short sizing request that ends without it, finish reason and all, shows the
habit, and from then on the finish reason alone tells a whole stream.
Threshold: none; one is enough.
"""

from kvstress.core.events import Event, RequestSent
from kvstress.core.exchange import Exchange
from kvstress.core.manifest import Manifest
from kvstress.core.outcome import Kind, Outcome
from kvstress.core.plan import Origin
from kvstress.core.verdict import Finding, Verdict
from kvstress.oracles.oracle import about, said

NAME = "STREAM"

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
    """Stateless: every exchange is judged alone."""

    def __init__(self, manifest: Manifest) -> None:
        del manifest

    def see(self, event: Event, asked: RequestSent | None) -> tuple[Finding, ...]:
        if not isinstance(event, Exchange) or asked is None or not is_about_the_stream(event):
            return ()
        if event.kind is Kind.MISSING_DONE and asked.origin is Origin.SIZING and event.finished:
            return (about(NAME, Verdict.PASS, event, asked, "this server ends its healthy streams without [DONE]"),)
        chunks = len(event.chunk_at)
        what = _WHAT.get(event.kind, f"the stream broke ({event.kind.value})")
        summary = f"HTTP 200, then after {chunks} content chunks {what}; {said(event)}"
        return (about(NAME, Verdict.FAIL, event, asked, summary, "one finish reason, then [DONE]"),)
