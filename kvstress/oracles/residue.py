"""RESIDUE: do failures depend on where in a block the prompt ends?

Compares prompts that failed (a broken answer, or one without its planted code) with those that did not, by their
length modulo 16, 32, 64 and 128 tokens: a page that is filled partly has a tail, and tails are where masks and copies
go wrong. Traffic: many lengths and `--keep-going`; `residue` sweeps the edges. Source: `usage.prompt_tokens`, of
another answer to the same prompt where the failing one has none.

Threshold: a run of residues holds failures more often than the rest (Fisher p < 0.01, divided by the runs that were
tried), five failures at least; judged when the run ends. The rule that was found is the finding.
Noisy when: a few lengths repeat (then each residue stands for a prompt: 24 distinct lengths at least); when failures
come late in a run whose lengths grow.
"""

from collections import Counter
from collections.abc import Iterator

from kvstress.core.events import Event, RequestSent, RunEnded
from kvstress.core.exchange import Exchange
from kvstress.core.manifest import Manifest
from kvstress.core.outcome import Outcome
from kvstress.core.plan import Origin
from kvstress.core.verdict import Finding, Verdict
from kvstress.oracles.ledger import MEMORY
from kvstress.oracles.oracle import found
from kvstress.oracles.recent import Recent
from kvstress.oracles.right import Right
from kvstress.oracles.shift import fisher

NAME = "RESIDUE"

BLOCKS = (16, 32, 64, 128)
_PARTS = 8
_LEAST, _LENGTHS, _LEVEL = 5, 24, 0.01
_BAD = frozenset({Outcome.FAILED, Outcome.BROKEN, Outcome.LOST})


class Residue:
    """Keeps counts by residue of 128, and the counted length of recent prompts (bounded)."""

    def __init__(self, manifest: Manifest) -> None:
        self._right = Right(manifest)
        self._lengths: Recent[str, int] = Recent()
        self._distinct: set[int] = set()
        self._bad: Counter[int] = Counter()
        self._all: Counter[int] = Counter()

    def see(self, event: Event, asked: RequestSent | None) -> tuple[Finding, ...]:
        if isinstance(event, RunEnded):
            return self._conclude()
        if not isinstance(event, Exchange) or asked is None or asked.origin is not Origin.STEP:
            return ()
        bad = event.outcome in _BAD or self._right.wrong(event, asked) is True
        length = self._length(event, asked)
        if length is not None and (bad or event.outcome is Outcome.COMPLETED):
            self._all[length % BLOCKS[-1]] += 1
            self._bad[length % BLOCKS[-1]] += bad
            if len(self._distinct) < _LENGTHS:
                self._distinct.add(length)
        return ()

    def _length(self, exchange: Exchange, asked: RequestSent) -> int | None:
        counted = exchange.usage.prompt_tokens if exchange.usage else None
        if counted is None or counted <= 0:
            return self._lengths.get(asked.recipe)
        self._lengths[asked.recipe] = counted
        self._lengths.trim(MEMORY)
        return counted

    def _conclude(self) -> tuple[Finding, ...]:
        if self._bad.total() < _LEAST or len(self._distinct) < _LENGTHS:
            return ()
        tried = [(self._chance(block, first, size), block, first, size) for block, first, size in _runs()]
        chance, block, first, size = min(tried)
        if chance * len(tried) >= _LEVEL:
            return ()
        bad, of = self._in(block, first, size)
        last = (first + size - 1) % block
        share = f"{bad} of {of} there, {self._bad.total() - bad} of {self._all.total() - of} elsewhere"
        what = f"requests fail where prompt_tokens mod {block} is {first} to {last}: {share}"
        return (found(NAME, Verdict.FAIL, "residue", what, measured=share, limit="failures do not depend on the tail"),)

    def _in(self, block: int, first: int, size: int) -> tuple[int, int]:
        inside = [residue for residue in self._all if (residue - first) % block < size]
        return sum(self._bad[residue] for residue in inside), sum(self._all[residue] for residue in inside)

    def _chance(self, block: int, first: int, size: int) -> float:
        bad, of = self._in(block, first, size)
        return fisher(bad, of, self._bad.total() - bad, self._all.total() - of) if of else 1.0


def _runs() -> Iterator[tuple[int, int, int]]:
    """Runs of residues (block, first, how many), in eighths of a block; the shortest half of all that there are."""
    for block in BLOCKS:
        part = max(1, block // _PARTS)
        for parts in range(1, _PARTS // 2 + 1):
            yield from ((block, first, parts * part) for first in range(0, block, part))
