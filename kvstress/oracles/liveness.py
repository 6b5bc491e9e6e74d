"""LIVENESS: does every request get an answer at all, and does the server stay up?

A request that reached our own deadline is LOST: nobody knows whether it would have
been answered, but a server that lets an admissible request wait that long has stopped making
progress as far as its user can tell. A launched server that exits in mid-run is dead
whatever its exit code: some engines exit with 0 when their worker was killed.

Noisy when: the deadline (`--timeout`) is shorter than a long prefill takes on this server;
the limit is in the finding, so that it can be seen.
Threshold: the run's request timeout.
"""

from kvstress.core.events import Event, RequestSent, ServerChange, ServerEvent, StepStarted
from kvstress.core.exchange import Exchange
from kvstress.core.manifest import Manifest
from kvstress.core.outcome import Kind
from kvstress.core.units import show_duration
from kvstress.core.verdict import Finding, Verdict
from kvstress.oracles.oracle import about

NAME = "LIVENESS"


class Liveness:
    """Keeps the step in progress, to date a server's exit."""

    def __init__(self, manifest: Manifest) -> None:
        self._timeout = manifest.timeout
        self._step: int | None = None

    def see(self, event: Event, asked: RequestSent | None) -> tuple[Finding, ...]:
        if isinstance(event, StepStarted):
            self._step = event.step
        if isinstance(event, ServerEvent) and event.change is ServerChange.EXITED:
            return (self._exited(event),)
        if isinstance(event, Exchange) and asked is not None and event.kind is Kind.DEADLINE:
            limit = show_duration(self._timeout)
            began = f"after {len(event.chunk_at)} content chunks" if event.chunk_at else "before any content"
            summary = f"no complete answer within {limit}; it stalled {began}"
            return (about(NAME, Verdict.FAIL, event, asked, summary, limit),)
        return ()

    def _exited(self, event: ServerEvent) -> Finding:
        code = "unknown" if event.code is None else str(event.code)
        return Finding(
            oracle=NAME,
            verdict=Verdict.FAIL,
            signature=f"{NAME}:exited:{code}",
            step=self._step,
            summary=f"the server process ended in mid-run with exit code {code}; {event.detail}".rstrip("; "),
            measured=f"exit code {code}",
            limit="the server stays up",
        )
