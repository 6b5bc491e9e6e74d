"""STATUS: does every admissible request get a 2xx answer that parses?

Compares each exchange's outcome with what a healthy server does. A 5xx, an error envelope
or a connection that breaks is a failure. A clean refusal is judged by whether the request
fits: by the context length the server announced, or its pool where that is smaller, else by the
largest prompt that it has answered in this run; where neither tells, the refusal is INCONCLUSIVE and says so.

Noisy when: a proxy answers in the server's place; limits that the server enforces but never
announces (quotas). 429 and 503 with Retry-After are load shedding, never a failure.
Threshold: none; one is enough.
"""

from kvstress.core.events import Event, RequestSent, ServerChange, ServerEvent
from kvstress.core.exchange import Exchange
from kvstress.core.manifest import Manifest
from kvstress.core.outcome import Kind, Outcome
from kvstress.core.plan import Expect, Origin
from kvstress.core.sample import Sample
from kvstress.core.units import show_tokens
from kvstress.core.verdict import Finding, Verdict
from kvstress.oracles.oracle import about, said
from kvstress.oracles.stream import is_about_the_stream

NAME = "STATUS"


class Status:
    """Keeps the announced limit, the pool's size, the largest total answered, and which phases ever completed."""

    def __init__(self, manifest: Manifest) -> None:
        # The announced limit comes as an event, never from the manifest, so that a re-judged run meets it when the
        # live one did.
        del manifest
        self._limit: int | None = None
        self._pool: float | None = None
        self._answered = 0
        self._completed: set[tuple[str, str]] = set()

    def see(self, event: Event, asked: RequestSent | None) -> tuple[Finding, ...]:
        if isinstance(event, ServerEvent) and event.change is ServerChange.LIMIT:
            self._limit = event.tokens
        if isinstance(event, Sample) and event.kv_capacity is not None and event.kv_capacity > 0:
            self._pool = event.kv_capacity
        if not isinstance(event, Exchange) or asked is None:
            return ()
        if event.outcome is Outcome.COMPLETED:
            self._admit(event, asked)
            return ()
        if event.outcome is Outcome.REFUSED:
            return self._refused(event, asked)
        if event.outcome is Outcome.FAILED or (event.outcome is Outcome.BROKEN and not is_about_the_stream(event)):
            return (about(NAME, Verdict.FAIL, event, asked, f"{_what(event)}; {said(event)}", "a 2xx answer"),)
        return ()

    def _admit(self, exchange: Exchange, asked: RequestSent) -> None:
        self._completed.add((asked.origin, asked.phase))
        self._answered = max(self._answered, _total(exchange, asked))

    def _refused(self, exchange: Exchange, asked: RequestSent) -> tuple[Finding, ...]:
        if exchange.kind is Kind.TOO_LONG:
            return self._too_long(exchange, asked)
        if exchange.kind is Kind.OVERLOADED:
            summary = f"shed as overload (HTTP {exchange.status}, Retry-After {exchange.retry_after}); {said(exchange)}"
            return (about(NAME, Verdict.INCONCLUSIVE, exchange, asked, summary),)
        if asked.origin is Origin.ASIDE and asked.expect is Expect.ANSWER_OR_REFUSAL:
            return ()
        accepted_before = (asked.origin, asked.phase) in self._completed
        verdict = Verdict.FAIL if accepted_before else Verdict.INCONCLUSIVE
        why = "although the same kind of request was answered before" if accepted_before else "from the first on"
        summary = f"refused with HTTP {exchange.status} {why}; {said(exchange)}"
        return (about(NAME, verdict, exchange, asked, summary),)

    def _too_long(self, exchange: Exchange, asked: RequestSent) -> tuple[Finding, ...]:
        wanted = None if asked.tokens is None else asked.tokens + (asked.max_tokens or 0)
        # A context may be announced for the model and the pool be smaller: what is over either may be refused.
        announced = int(min(self._limit or 0, self._pool or self._limit or 0))
        room = max(announced, self._answered)
        if wanted is not None and wanted <= room:
            limit = f"{show_tokens(room)} tokens"
            summary = f"refused as too long though {show_tokens(wanted)} tokens fit in {limit}; {said(exchange)}"
            return (about(NAME, Verdict.FAIL, exchange, asked, summary, limit),)
        if asked.expect is Expect.ANSWER_OR_REFUSAL:
            return ()
        size = "of unknown size" if wanted is None else f"of {show_tokens(wanted)} tokens with its output"
        known = f"over the server's limit of {show_tokens(self._limit)}" if self._limit else "limit not announced"
        summary = f"a prompt {size} was refused as too long ({known}); use shorter prompts; {said(exchange)}"
        return (about(NAME, Verdict.INCONCLUSIVE, exchange, asked, summary),)


def _total(exchange: Exchange, asked: RequestSent) -> int:
    """Prompt and requested output of an answered request: what the server has shown to admit."""
    prompt = exchange.usage.prompt_tokens if exchange.usage and exchange.usage.prompt_tokens else asked.tokens
    return (prompt or 0) + (asked.max_tokens or 0)


_TRANSPORT = "transport: "
_WHAT = {
    Kind.CONNECTION_REFUSED: "the connection was refused: nothing listens any more",
    Kind.CONNECT_FAILED: "no connection could be made",
    Kind.TLS: "the TLS handshake failed",
    Kind.NO_RESPONSE: "the server closed the connection without answering",
    Kind.RESET: "the server reset the connection",
    Kind.SHORT_BODY: "the body ended before its Content-Length",
    Kind.TRUNCATED_CHUNK: "the chunked body was cut off",
    Kind.PROTOCOL: "the answer breaks the rules of HTTP",
    Kind.MALFORMED: "the answer does not parse",
    Kind.MISSING_FINISH: "the answer has no finish reason",
    Kind.OVERSIZE_ANSWER: "the answer is larger than kvstress reads",
    Kind.ERROR_ENVELOPE: "an error object came with a success status",
}


def _what(exchange: Exchange) -> str:
    what = _WHAT.get(exchange.kind, f"HTTP {exchange.status}")
    faults = exchange.violations
    if exchange.kind is Kind.PROTOCOL:  # why it could not be read says more than that it could not
        faults = tuple(odd for odd in faults if odd.startswith(_TRANSPORT)) or faults
    return f"{what} ({faults[0].removeprefix(_TRANSPORT)[:200]})" if faults else what
