"""Better, worse, or nobody can tell: what a handful of runs can say of the first failure, by rule and not by p-value.

With three runs a side no test can reach significance (three failures against three survivors give 0.1 at
best), and engines that fail do so for a reason. So a failure that comes again, at a step that every run of the
baseline passed, is a regression; and the other way round only passing twice as far, with the pool full, is better.
"""

from collections import Counter
from dataclasses import dataclass
from enum import StrEnum

from kvstress.gate.evidence import First, Seen, Side

# How often a new failure must have been seen, and how much further than the last one a head must come.
TWICE, TWICE_AS_FAR = 2, 2


class Change(StrEnum):
    """The head against the baseline."""

    REGRESSED = "REGRESSED"
    IMPROVED = "IMPROVED"
    CANNOT_TELL = "CANNOT TELL"


@dataclass(frozen=True, slots=True, kw_only=True)
class Changed:
    """`change` and, in a sentence, why; where nobody can tell, what would."""

    change: Change
    said: str

    @property
    def words(self) -> str:
        """Both as one line."""
        return f"{self.change}: {self.said}"


def changed(base: Side, head: Side) -> Changed:
    """Compare the first failures of two sides, run by run with those of the same plan."""
    new = [seen for seen in head if _is_new(seen, base)]
    again = Counter(seen.first.signature for seen in new if seen.first is not None)
    signature, times = next(iter(again.most_common(1)), (None, 0))
    if times >= TWICE:
        step = min(seen.first.step for seen in new if seen.first is not None and seen.first.signature == signature)
        return Changed(
            change=Change.REGRESSED,
            said=f"first failure at prompt {step:,}, which every run of the baseline passed; the same in {times} runs",
        )
    if new:
        return Changed(change=Change.CANNOT_TELL, said=_once(new[0]))
    return _better(base, head)


def _is_new(seen: Seen, base: Side) -> bool:
    """A failure at a step that every run of the baseline with the same plan passed."""
    same = [other.first for other in base if other.plan == seen.plan]
    first = seen.first
    return first is not None and first.failed and bool(same) and all(_passed(other, first.step) for other in same)


def _passed(first: First | None, step: int) -> bool:
    return first is not None and first.step > step


def _once(seen: Seen) -> str:
    assert seen.first is not None
    return (
        f"{seen.run} failed at prompt {seen.first.step:,}, which every run of the baseline passed, but only this once; "
        "one more run that fails in the same way would tell"
    )


def _better(base: Side, head: Side) -> Changed:
    failed = [seen.first.step for seen in base if seen.first is not None and seen.first.failed]
    if not failed:
        return Changed(change=Change.CANNOT_TELL, said=_neither(head))
    goal = TWICE_AS_FAR * max(failed)
    if any(seen.first is None or seen.first.failed for seen in head):
        return Changed(change=Change.CANNOT_TELL, said="both sides fail, and four runs of each would show a difference")
    if any(seen.levels.get("pool_fill") is None for seen in head):
        return Changed(change=Change.CANNOT_TELL, said="the head did not fail, but its pool was not seen to fill")
    shortest = min(seen.first.step for seen in head if seen.first is not None)
    if shortest < goal:
        said = f"no failure in {shortest:,} prompts, and it takes {goal:,}: twice the baseline's last failing one"
        return Changed(change=Change.CANNOT_TELL, said=said)
    said = f"no failure in {shortest:,} prompts with the pool full; the baseline's last was at prompt {max(failed):,}"
    return Changed(change=Change.IMPROVED, said=said)


def _neither(head: Side) -> str:
    if any(seen.first is None or seen.first.failed for seen in head):
        return "the head failed later than the baseline came: run the baseline as far"
    return "no failure on either side"
