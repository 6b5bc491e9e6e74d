"""The engine's thread: it alone touches pages, requests arrive through an inbox and leave through callbacks.

The event loop must answer /metrics while a long prompt is computed, so nothing it reads is shared with a step: after
each step the engine publishes an immutable `Stats`, and only then lets results out. A client that has its answer and
scrapes finds the books already settled.
"""

from __future__ import annotations

import sys
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, replace
from time import sleep
from typing import TypeVar

from kvstress.refserver.audit import AuditViolation
from kvstress.refserver.geometry import PAGE_TOKENS
from kvstress.refserver.memory import KvMemory
from kvstress.refserver.sampling import SamplingParams
from kvstress.refserver.scheduler import Scheduler, Tally
from kvstress.refserver.sequence import Failure, Limits, Output, Prompt, Sequence

# How long to wait for news when the queue cannot move and nothing runs.
_STALL_SECONDS = 0.005
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Stats:
    """The state of the engine after a step, in tokens, slots and requests."""

    capacity_tokens: int
    free_tokens: int
    cached_tokens: int
    alias_tokens: int
    slots: int
    free_slots: int
    cached_prompts: int
    running: int
    waiting: int
    evictions: int
    evicted_tokens: int
    tally: Tally
    steps: int


class Engine:
    """A scheduler on a thread of its own.

    `before_step` is called with the scheduler before each step. When it or a step raises, the engine is dead: `fault`
    says why, whatever was in flight fails, and `on_fault` is called.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        *,
        step_delay: float = 0.0,
        before_step: Callable[[Scheduler], None] | None = None,
        on_fault: Callable[[], None] | None = None,
    ) -> None:
        self.scheduler = scheduler
        self.memory: KvMemory = scheduler.memory
        self.step_delay = step_delay
        self.fault: str | None = None
        self._before_step = before_step
        self._on_fault = on_fault
        self._inbox: deque[Callable[[], None]] = deque()
        self._wake = threading.Condition()
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="engine", daemon=True)
        self._numbers = 0
        self._steps = 0
        self.stats = self._measure()

    def start(self) -> None:
        """Begin stepping."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread after the step in progress."""
        with self._wake:
            self._stopping = True
            self._wake.notify()
        # A planted defect may have hung the thread for good; it is a daemon and dies with the process.
        self._thread.join(timeout=2)
        self.memory.ranks.close()

    def submit(
        self,
        prompt: Prompt,
        params: SamplingParams,
        limits: Limits,
        deliver: Callable[[Output], None],
        *,
        seeded: bool = True,
    ) -> Sequence:
        """Queue a request; `deliver` is called on the engine's thread. Unseeded, its arrival number is its seed."""
        self._numbers += 1
        params = params if seeded else replace(params, seed=self._numbers)
        sequence = Sequence(self._numbers, prompt, params, limits, deliver)
        if not self.do(lambda: self.scheduler.submit(sequence)):
            deliver(Failure(message=self.fault or "", code="ENGINE_DEAD"))
        return sequence

    def cancel(self, sequence: Sequence) -> None:
        """Stop a request whose client has gone."""
        self.do(lambda: self.scheduler.cancel(sequence))

    def do(self, command: Callable[[], None]) -> bool:
        """Run `command` on the engine's thread before its next step. False: the engine is dead."""
        with self._wake:
            self._inbox.append(command)
            self._wake.notify()
            return self.fault is None

    def ask(self, question: Callable[[], _T]) -> Future[_T]:
        """Compute something on the engine's thread, between steps."""
        answer: Future[_T] = Future()
        self.do(lambda: answer.set_result(question()))
        return answer

    def _run(self) -> None:
        try:
            while self._wait():
                self._turn()
        except AuditViolation as violation:
            self._die(f"audit: {violation}")
        finally:
            if not self._stopping and self.fault is None:
                self._die(f"the engine stopped: {sys.exception()!r}")

    def _turn(self) -> None:
        while self._inbox:
            self._inbox.popleft()()
        if self._before_step is not None:
            self._before_step(self.scheduler)
        self.scheduler.step()
        self._steps += 1
        self.stats = self._measure()
        self._flush()
        if self.step_delay:
            sleep(self.step_delay)

    def _die(self, fault: str) -> None:
        """Say so on stderr and to every client in flight."""
        print(f"kvstress reference server: {fault}", file=sys.stderr, flush=True)
        with self._wake:
            self.fault = fault
            while self._inbox:
                self._inbox.popleft()()
        for sequence in self.scheduler.in_flight:
            sequence.deliver(Failure(message=fault, code="ENGINE_DEAD"))
        if self._on_fault is not None:
            self._on_fault()

    def _wait(self) -> bool:
        with self._wake:
            if self.scheduler.stalled and not self._inbox:
                self._wake.wait(timeout=_STALL_SECONDS)
            self._wake.wait_for(lambda: self._stopping or self._inbox or self.scheduler.busy)
            return not self._stopping

    def _flush(self) -> None:
        outbox, self.scheduler.outbox = self.scheduler.outbox, []
        for sequence, output in outbox:
            if not sequence.cancelled:
                sequence.deliver(output)

    def _measure(self) -> Stats:
        pool, cache, tally = self.memory.pool, self.memory.cache, self.scheduler.tally
        return Stats(
            capacity_tokens=pool.kv_pages * PAGE_TOKENS,
            free_tokens=pool.free_pages * PAGE_TOKENS,
            cached_tokens=cache.cached_pages * PAGE_TOKENS,
            alias_tokens=int((pool.alias_count > 0).sum()) * PAGE_TOKENS,
            slots=pool.geometry.slots,
            free_slots=pool.free_slots,
            cached_prompts=len(cache.checkpoints),
            running=len(self.scheduler.running),
            waiting=len(self.scheduler.waiting),
            evictions=self.memory.counters.evictions,
            evicted_tokens=self.memory.counters.evicted_tokens,
            tally=Tally(**{name: getattr(tally, name) for name in Tally.__slots__}),
            steps=self._steps,
        )
