"""ABORT: does work stop when its client has gone?

Compares the server some time after a request was cancelled, when nothing of ours is open any more, with rest: nothing
runs, and the counter of generated tokens stands still. Source: samples between our last answer and our next request.

Threshold: 10 s (scaled, 3 s at least) after the last end; one scrape that still shows a running request, or two between
which tokens were generated.
Noisy when: a server aborts two seconds late by design (below the threshold); when others use the server; real
llama.cpp notices a closed connection only when nothing else was answered for a second, so whoever waits scrapes seldom.
"""

from kvstress.core.events import Event, RequestSent
from kvstress.core.exchange import Exchange
from kvstress.core.manifest import Manifest
from kvstress.core.outcome import Outcome
from kvstress.core.sample import Sample
from kvstress.core.verdict import Finding, Verdict
from kvstress.oracles.oracle import found, patience

NAME = "ABORT"


class Abort:
    """Keeps the open requests, the last cancelled one, and the last scrape since all ended."""

    def __init__(self, manifest: Manifest) -> None:
        self._grace = patience(manifest, 10.0, least=3.0)
        self._open: set[str] = set()
        self._cancelled: RequestSent | None = None
        self._ended_at = 0.0
        self._generated: float | None = None
        self._told = False

    def see(self, event: Event, asked: RequestSent | None) -> tuple[Finding, ...]:
        match event:
            case RequestSent():
                self._open.add(event.request)
                self._generated = None
            case Exchange():
                self._open.discard(event.request)
                self._ended_at = max(self._ended_at, event.ended)
                if event.outcome is Outcome.CANCELLED and asked is not None:
                    self._cancelled = asked
            case Sample() if self._cancelled and not self._open and event.at - self._ended_at >= self._grace:
                return self._late(event, self._cancelled)
        return ()

    def _late(self, sample: Sample, cancelled: RequestSent) -> tuple[Finding, ...]:
        before, self._generated = self._generated, sample.generation_tokens
        rose = 0.0 if before is None or sample.generation_tokens is None else sample.generation_tokens - before
        if self._told or not ((sample.running or 0) > 0 or rose > 0):
            return ()
        self._told = True
        doing = f"generated {rose:g} more tokens" if rose > 0 else f"says {sample.running:g} running"
        what = f"{sample.at - self._ended_at:.1f} s after {cancelled.request} was cancelled the server {doing}"
        limit = f"stopped within {self._grace:g} s"
        return (found(NAME, Verdict.FAIL, "goes on", what, asked=cancelled, measured=what, limit=limit),)
