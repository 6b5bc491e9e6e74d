"""Drives a scheduler by hand: no threads, no sockets, the audit before every step."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from kvstress.refserver import audit
from kvstress.refserver.geometry import geometry_for
from kvstress.refserver.hooks import Hooks
from kvstress.refserver.memory import Fix, KvMemory
from kvstress.refserver.rank import RankConfig
from kvstress.refserver.ranks import LocalRanks
from kvstress.refserver.sampling import SamplingParams
from kvstress.refserver.scheduler import Scheduler
from kvstress.refserver.sequence import Chunk, Failure, Limits, Output, Prompt, Sequence
from kvstress.refserver.tokenizer import FIRST_PIECE

MOST_STEPS = 20_000


@dataclass(slots=True)
class Driven:
    """A scheduler and what it has said so far, by request number."""

    scheduler: Scheduler
    said: dict[int, list[Output]] = field(default_factory=dict)

    def submit(self, tokens: list[int], max_tokens: int, **params: float) -> Sequence:
        """Queue a request, greedy unless told otherwise."""
        number = len(self.said) + 1
        self.said[number] = []
        prompt = Prompt(tokens=tokens, context=tokens[-3:])
        sampling = SamplingParams(temperature=params.get("temperature", 0.0), seed=number)
        sequence = Sequence(number, prompt, sampling, Limits(max_tokens=max_tokens), self.said[number].append)
        self.scheduler.submit(sequence)
        return sequence

    def step(self) -> None:
        """Audit, then one step."""
        audit.check(self.scheduler)
        self.scheduler.step()
        outbox, self.scheduler.outbox = self.scheduler.outbox, []
        for sequence, output in outbox:
            sequence.deliver(output)

    def drain(self) -> None:
        """Step until nothing is left to do."""
        for _ in range(MOST_STEPS):
            if not self.scheduler.busy:
                break
            self.step()
        assert not self.scheduler.busy
        audit.check(self.scheduler)

    def answer(self, sequence: Sequence) -> list[int]:
        """The tokens a finished request was answered with."""
        chunks = [output for output in self.said[sequence.number] if isinstance(output, Chunk)]
        assert chunks
        assert chunks[-1].finish_reason is not None
        return [token for chunk in chunks for token in chunk.tokens]

    def failed(self, sequence: Sequence) -> bool:
        """Did the engine give it up?"""
        return any(isinstance(output, Failure) for output in self.said[sequence.number])


def driven(limit: str = "36G", fix: Fix = Fix.NONE, *, ranks: int = 1, hooks: Hooks | None = None) -> Driven:
    """A scheduler over a fresh pool, all ranks in this process."""
    geometry = geometry_for(limit)
    inert = fix is Fix.INERT_MASK
    configs = [RankConfig(geometry=geometry, rank=rank, ranks=ranks, inert_mask=inert) for rank in range(ranks)]
    return Driven(Scheduler(KvMemory(geometry, LocalRanks(configs), fix), hooks=hooks))


def prompt(seed: int, length: int) -> list[int]:
    """Token ids of low entropy, distinct from the first on."""
    choice = random.Random(seed)
    phrases = [[choice.randrange(FIRST_PIECE, FIRST_PIECE + 4000) for _ in range(9)] for _ in range(12)]
    tokens = [FIRST_PIECE + seed % 10_000]
    while len(tokens) < length:
        tokens += choice.choice(phrases)
    return tokens[:length]
