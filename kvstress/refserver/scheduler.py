"""Continuous batching, one step at a time: who gets pages, who computes, who gives way.

A step restores admitted requests, computes a bounded share of the waiting prompts, runs one speculative round for every
request that decodes, and admits new ones. It has no thread and no clock, so tests drive it by hand. Nothing in it looks
at a request's ordinal, a counter or a random number to decide that a request fails: a row of logits that is no
distribution does.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np

from kvstress.refserver import sampling
from kvstress.refserver.geometry import PAGE_TOKENS
from kvstress.refserver.hooks import Hooks
from kvstress.refserver.memory import KvMemory
from kvstress.refserver.model import F32
from kvstress.refserver.pool import pages_for
from kvstress.refserver.ranks import reduce
from kvstress.refserver.sampling import Sampled
from kvstress.refserver.sequence import Chunk, Failure, Output, Phase, Sequence, Started, checkpoint_of
from kvstress.refserver.transcript import Transcript

PREFILL_TOKENS_PER_STEP = 8192
DEVICE_ERRORS = {"INVALID_SPECULATION": 6, "INVALID_DISTRIBUTION": 7}


@dataclass(slots=True, kw_only=True)
class Tally:
    """Counters since the server started."""

    requests: int = 0
    finished: int = 0
    failed: int = 0
    cancelled: int = 0
    preemptions: int = 0
    prompt_tokens: int = 0
    generated_tokens: int = 0
    prefix_queries: int = 0
    prefix_hits: int = 0
    drafted: int = 0
    accepted: int = 0


class Scheduler:
    """The requests of one engine, in arrival order, and the steps that serve them."""

    def __init__(
        self,
        memory: KvMemory,
        *,
        max_running: int = 128,
        device_error: str = "INVALID_SPECULATION",
        hooks: Hooks | None = None,
    ) -> None:
        self.memory = memory
        self.max_running = max_running
        self.device_error = device_error
        self.hooks = hooks or Hooks()
        self.waiting: deque[Sequence] = deque()
        self.running: list[Sequence] = []
        self.retired: list[Sequence] = []
        self.tally = Tally()
        self.transcripts: dict[Sequence, Transcript] = {}
        self._unplaced: Sequence | None = None
        self.outbox: list[tuple[Sequence, Output]] = []

    @property
    def busy(self) -> bool:
        """Is there anything a step would do?"""
        return bool(self.waiting or self.running or self.retired or self.memory.pool.retirement)

    @property
    def stalled(self) -> bool:
        """Did the last step leave a queue that only a new event can move?"""
        quiet = not (self.running or self.retired or self.memory.pool.retirement)
        return quiet and bool(self.waiting) and self.waiting[0] is self._unplaced

    @property
    def in_flight(self) -> list[Sequence]:
        """All requests that have not been answered."""
        return [*self.waiting, *self.running, *self.retired]

    def submit(self, sequence: Sequence) -> None:
        """Queue a request."""
        self.tally.requests += 1
        self.transcripts[sequence] = Transcript(sequence.limits)
        self.waiting.append(sequence)

    def cancel(self, sequence: Sequence) -> None:
        """The client has gone: stop at once, whatever the phase; nothing of the request is cached."""
        if not self.hooks.cancel(sequence):
            return
        if sequence.phase is Phase.WAITING and sequence in self.waiting:
            self.waiting.remove(sequence)
            del self.transcripts[sequence]
            self.tally.cancelled += 1
        elif sequence in self.running:
            sequence.cancelled = True
            self.tally.cancelled += 1
            self._retire(sequence, None)

    def step(self) -> None:
        """One turn of the engine."""
        self._reap()
        self.memory.pool.pass_fence()
        for sequence in [each for each in self.running if each.phase is Phase.INBOUND]:
            self._restore(sequence)
        self._prefill()
        for sequence in [each for each in self.running if each.phase is Phase.DECODE]:
            if sequence.phase is Phase.DECODE:
                self._decode(sequence)
        self._admit()

    # Admission

    def _admit(self) -> None:
        self._unplaced = None
        while self.waiting and len(self.running) < self.max_running:
            self._unplaced = self.waiting[0]
            if not self.hooks.admit(self.waiting[0]):
                return
            if not self._place(self.waiting[0]):
                self._refuse_crowd()
                return
            self.running.append(self.waiting.popleft())

    def _refuse_crowd(self) -> None:
        """The first in the queue finds no place beside those that run; normally it waits."""
        refusal = self.hooks.no_room(self.waiting[0]) if self.running else None
        if refusal is not None:
            sequence = self.waiting.popleft()
            self.running.append(sequence)
            self._retire(sequence, Failure(message=refusal, code="NO_ROOM"))

    def _place(self, sequence: Sequence) -> bool:
        """Find the cached prefix and grant the pages of the rest; all or nothing."""
        match = self.memory.cache.lookup(sequence.tokens, sequence.prompt.salt)
        shared = match.checkpoint.pages[: match.position // PAGE_TOKENS] if match else []
        if match:
            match.checkpoint.pins += 1
        pages = self.memory.grant(pages_for(sequence.total) - len(shared))
        if pages is None and match and self._holds_its_own_room(sequence, shared):
            match.checkpoint.pins -= 1
            match, shared = None, []
            pages = self.memory.grant(pages_for(sequence.total))
        if pages is None:
            if match:
                match.checkpoint.pins -= 1
            return False
        sequence.match, sequence.pages, sequence.shared = match, shared + pages, len(shared)
        sequence.phase = Phase.INBOUND
        self._count_lookup(sequence)
        return True

    def _holds_its_own_room(self, sequence: Sequence, shared: list[int]) -> bool:
        """Only the cached prompt that is to be resumed could make room: better compute anew than wait for ever."""
        return not self.running and not self.memory.could_grant(pages_for(sequence.total) - len(shared))

    def _count_lookup(self, sequence: Sequence) -> None:
        if sequence.cached_tokens is not None:
            return
        sequence.cached_tokens = sequence.match.position if sequence.match else 0
        self.tally.prefix_queries += sequence.prompt_tokens
        self.tally.prefix_hits += sequence.cached_tokens
        self.outbox.append((sequence, Started(cached_tokens=sequence.cached_tokens)))

    def _restore(self, sequence: Sequence) -> None:
        """Bring back the recurrent state and the tail page, all of it, dead positions included."""
        match = sequence.match
        self.memory.ranks.call("begin", sequence.number, match.slot if match else None)
        if match:
            self.memory.cache.touch(match.checkpoint)
            sequence.computed = match.position
            live = match.position % PAGE_TOKENS
            if live:
                tail = match.position // PAGE_TOKENS
                self.memory.ranks.call("copy_page", match.checkpoint.pages[tail], sequence.pages[tail])
                self.memory.clear_dead(sequence.pages[tail], live)
        sequence.to_save = sequence.snapshot_positions()
        sequence.phase = Phase.DECODE if sequence.total - sequence.computed == 1 else Phase.PREFILL

    # Prefill

    def _prefill(self) -> None:
        budget = PREFILL_TOKENS_PER_STEP
        for sequence in [each for each in self.running if each.phase is Phase.PREFILL]:
            while budget > 0 and sequence.phase is Phase.PREFILL and self._save_due(sequence):
                budget -= self._prefill_chunk(sequence, budget)

    def _save_due(self, sequence: Sequence) -> bool:
        """Save the state if this is a place to. False: wait a step for a slot to open."""
        if not sequence.to_save or sequence.to_save[0] != sequence.computed:
            return True
        slot = self.memory.take_slot()
        if slot is None and self.memory.could_take_slot():
            return False
        position = sequence.to_save.pop(0)
        if slot is not None:
            self.memory.ranks.call("save", sequence.number, slot)
            sequence.snapshots[position] = slot
        return True

    def _prefill_chunk(self, sequence: Sequence, budget: int) -> int:
        stop = min([sequence.total, sequence.computed + budget, *sequence.to_save[:1]])
        start = sequence.computed
        self.memory.ranks.call("prefill", sequence.number, sequence.window(start, stop), start, sequence.pages)
        sequence.computed = stop
        if stop == sequence.total:
            self._first_token(sequence)
        return stop - start

    def _first_token(self, sequence: Sequence) -> None:
        """Sample after the prompt. The output is computed from live positions only."""
        live = sequence.total % PAGE_TOKENS
        if live:
            self.memory.clear_dead(sequence.pages[-1], live)
        arguments = (sequence.total, sequence.contexts([]), sequence.pages, int(sequence.tokens[-1]))
        rows = sampling.logits(reduce(self.memory.ranks.call("prefill_output", sequence.number, *arguments)))
        sequence.phase = Phase.DECODE
        if sampling.is_distribution(rows[0]):
            self._emit(sequence, [self._sample(sequence, rows[0], [])])
        else:
            self._fail(sequence)

    # Decode

    def _decode(self, sequence: Sequence) -> None:
        """One speculative round: the tokens not yet computed, and drafts after the first round."""
        drafts = self._drafts(sequence)
        if not self._grow(sequence, sequence.total + len(drafts)):
            return
        start = sequence.computed
        known = sequence.window(start, sequence.total)
        fed = np.concatenate([known, np.array(drafts, np.int32)])
        arguments = (fed, start, sequence.contexts(drafts), sequence.pages)
        rows = sampling.logits(reduce(self.memory.ranks.call("decode", sequence.number, *arguments)))
        sequence.rounds += 1
        self._verify(sequence, drafts, rows)

    def _drafts(self, sequence: Sequence) -> list[int]:
        if sequence.rounds == 0:
            return []
        room = max(0, sequence.limits.max_tokens - sequence.generated - 1)
        transcript = self.transcripts[sequence]
        if transcript.constrained:
            return transcript.forced()[: min(room, sampling.MAX_DRAFTS)]
        return sampling.propose(sequence.tokens, sequence.answer_context)[:room]

    def _verify(self, sequence: Sequence, drafts: list[int], rows: F32) -> None:
        """Keep tokens while the drafts guess what is sampled. A row that is no distribution fails the request."""
        kept: list[Sampled] = []
        before, start = sequence.total, sequence.computed
        for row, draft in zip(rows, [*drafts, None], strict=True):
            if not sampling.is_distribution(row):
                self._fail(sequence)
                return
            kept.append(self._sample(sequence, row, [each.token for each in kept]))
            if kept[-1].token != draft:
                break
        self.tally.drafted += len(drafts)
        self.tally.accepted += len(kept) - 1
        fed = np.concatenate([sequence.window(start, before), np.array(drafts[: len(kept) - 1], np.int32)])
        self.memory.ranks.call("commit", sequence.number, fed, start)
        sequence.computed = before + len(kept) - 1
        self._emit(sequence, kept)

    def _sample(self, sequence: Sequence, row: F32, ahead: list[int]) -> Sampled:
        """The token after those of this round that were kept already."""
        row = self.transcripts[sequence].shape(self.hooks.logits(sequence, row, ahead), sequence, ahead)
        token = sampling.choose(row, sequence.params, sequence.total + len(ahead))
        count = sequence.params.logprobs
        return Sampled(token=token, logprob=None if count is None else sampling.describe(row, token, count))

    def _grow(self, sequence: Sequence, tokens: int) -> bool:
        """Own the pages for `tokens` positions. False: not this round, or preempted, or ended for want of room."""
        missing = pages_for(tokens) - len(sequence.pages)
        if missing <= 0:
            return True
        pages = self.memory.grant(missing)
        if pages is not None:
            for page in pages:
                self.memory.clear_dead(page, 0)
            sequence.pages += pages
            return True
        if not self.memory.could_grant(missing):
            self._give_way(sequence)
        return False

    def _give_way(self, sequence: Sequence) -> None:
        """No page is left for `sequence`: the youngest request starts again later; a lone one ends here."""
        youngest = max(self.running, key=lambda each: each.number)
        refusal = self.hooks.no_room(sequence)
        if refusal is not None:
            self._retire(sequence, Failure(message=refusal, code="NO_ROOM"))
        elif len(self.running) == 1:
            self._finish(sequence, "length")
        else:
            self._preempt(youngest)

    def _preempt(self, sequence: Sequence) -> None:
        self.tally.preemptions += 1
        self.running.remove(sequence)
        self._let_go(sequence)
        sequence.release()
        sequence.phase = Phase.WAITING
        self.waiting.appendleft(sequence)

    # Ends

    def _emit(self, sequence: Sequence, sampled: list[Sampled]) -> None:
        """Add tokens to the answer until something ends it."""
        chunk = self.transcripts[sequence].add(sequence, sampled)
        self.tally.generated_tokens += len(chunk.tokens)
        if chunk.finish_reason is not None:
            self._retire(sequence, chunk)
        elif chunk.text or chunk.tokens:
            self.outbox.append((sequence, chunk))

    def _finish(self, sequence: Sequence, reason: str) -> None:
        self._retire(sequence, Chunk(text=self.transcripts[sequence].flush(), finish_reason=reason))

    def _fail(self, sequence: Sequence) -> None:
        self.hooks.failed(sequence)
        number = DEVICE_ERRORS[self.device_error]
        message = f"prepared model reported device error {number}"
        self._retire(sequence, Failure(message=message, code=self.device_error))

    def _retire(self, sequence: Sequence, outcome: Chunk | Failure | None) -> None:
        self.running.remove(sequence)
        sequence.phase = Phase.RETIRED
        sequence.outcome = outcome
        self.retired.append(sequence)

    def _reap(self) -> None:
        """Settle the requests that ended in the step before, and only then say so."""
        for sequence in self.retired:
            if isinstance(sequence.outcome, Chunk):
                self.tally.finished += 1
                self.tally.prompt_tokens += sequence.prompt_tokens
                self._keep_prompt(sequence)
            elif isinstance(sequence.outcome, Failure):
                self.tally.failed += 1
            self._let_go(sequence)
            if sequence.outcome is not None:
                self.outbox.append((sequence, sequence.outcome))
            del self.transcripts[sequence]
        self.retired.clear()

    def _keep_prompt(self, sequence: Sequence) -> None:
        """Hand the prompt's pages and snapshots to the cache."""
        checkpoint = checkpoint_of(sequence)
        self.memory.keep(checkpoint)
        sequence.snapshots = {}
        if checkpoint.snapshots:
            sequence.shared = max(sequence.shared, len(checkpoint.pages))

    def _let_go(self, sequence: Sequence) -> None:
        """Release pages, snapshots, registers and the hold on the cached prefix."""
        self.memory.ranks.call("forget", sequence.number)
        self.memory.release_slots(list(sequence.snapshots.values()))
        self.memory.pool.retire(self.hooks.released(sequence, sequence.own_pages))
        if sequence.match is not None:
            sequence.match.checkpoint.pins -= 1
