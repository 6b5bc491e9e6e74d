"""PRESSURE: is an answer still right when the pool is full?

Compares right and wrong (planted codes, promised shapes) of greedy answers in two arms: those that came while the
server's metrics showed room in the KV pool, and those that came while it was full or preempting. Traffic: probes in
both states, interleaved where the workload can. Source: the last sample before an answer (usage, or free of capacity).

Threshold: room is usage below a half, full is 95 %, or an eviction or preemption since the sample before; with room at
least 98 % right of eight or more; full wrong at least twice, three points and more (Fisher p < 0.005). Answers that
timed out are no wrong answers.
Noisy when: usage counts evictable pages or only running requests; a server without these metrics is not judged.
"""

from kvstress.core.events import Event, RequestSent
from kvstress.core.exchange import Exchange
from kvstress.core.manifest import Manifest
from kvstress.core.plan import Origin
from kvstress.core.sample import Sample
from kvstress.core.verdict import Finding, Verdict
from kvstress.oracles.arms import Arms
from kvstress.oracles.oracle import found
from kvstress.oracles.right import Right

NAME = "PRESSURE"

_ROOM, _FULL, _POINTS = 0.5, 0.95, 0.03


class Pressure:
    """Keeps four counts and how full the pool was said to be."""

    def __init__(self, manifest: Manifest) -> None:
        self._right = Right(manifest)
        self._arms = Arms(level=0.005, least=8)
        self._capacity: float | None = None
        self._usage: float | None = None
        self._put_out: float | None = None

    def see(self, event: Event, asked: RequestSent | None) -> tuple[Finding, ...]:
        if isinstance(event, Sample) and event.problem is None:
            self._usage = self._used(event)
        if not isinstance(event, Exchange) or asked is None or asked.origin is not Origin.STEP:
            return ()
        usage, wrong = self._usage, self._right.wrong(event, asked)
        if wrong is None or usage is None or _ROOM <= usage < _FULL:
            return ()
        if not self._arms.add(usage >= _FULL, wrong) or self._arms.drop < _POINTS:
            return ()
        share = self._arms.words("with a full pool", "with room in it")
        what = f"answers go wrong when the pool is full: {share}; here {event.text[:60]!r}"
        return (
            found(NAME, Verdict.FAIL, "full pool", what, asked=asked, measured=share, limit="as right as with room"),
        )

    def _used(self, sample: Sample) -> float | None:
        """The share of the pool in use; 1.0 while something is put out for want of room."""
        told = [count for count in (sample.evictions, sample.preemptions) if count is not None]
        before, self._put_out = self._put_out, sum(told) if told else None
        if before is not None and self._put_out is not None and self._put_out > before:
            return 1.0
        if sample.kv_capacity is not None:
            self._capacity = sample.kv_capacity
        elif sample.why == "start" and sample.kv_free is not None:
            # An engine that tells only what is free tells its capacity when it is empty.
            self._capacity = sample.kv_free + (sample.kv_cached or 0.0)
        if sample.kv_free is not None and self._capacity:
            return 1.0 - sample.kv_free / self._capacity
        return sample.kv_usage
