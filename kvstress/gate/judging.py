"""Whether what was measured meets a sentence: met, not met, or nobody can tell.

The third word is what gates usually lack: a metric without samples, a run that stopped before it
came to where the baseline failed, a ratio whose interval lies on both sides of the limit. None of them
is a pass, and none of them is the commit's fault.
"""

import math
from collections.abc import Iterable
from statistics import median

from kvstress.core.ruling import Ruled, Ruling
from kvstress.gate.evidence import First, Intervals, Seen, Side, signatures
from kvstress.gate.sentence import Sentence, Sign
from kvstress.gate.timing import latency, throughput

# A first failure this much earlier than the baseline's own is an effect: at least so many steps, and such a share.
LEAST_STEPS, LEAST_SHARE = 2, 0.10


def rule(sentence: Sentence, base: Side, head: Side, intervals: Intervals) -> Ruling:
    """`sentence` judged on the runs of both sides; `base` is empty where there is no baseline."""
    if sentence.needs_baseline and not base:
        return _ruling(sentence, Ruled.CANNOT_TELL, "there is no baseline to compare with")
    if sentence.latency is not None:
        return latency(sentence, sentence.latency, base, head, intervals)
    if sentence.metric == "first_failure":
        return _worst([_first(sentence, base, seen) for seen in head])
    if sentence.metric == "findings.new":
        return _new(sentence, base, head)
    ruling = _worst([_level(sentence, base, seen) for seen in head])
    return throughput(sentence, ruling, base, head, intervals) if sentence.metric == "throughput" else ruling


def _ruling(sentence: Sentence, outcome: Ruled, said: str, **numbers: float | None) -> Ruling:
    return Ruling(
        sentence=sentence.text,
        outcome=outcome,
        said=said,
        base=numbers.get("base"),
        head=numbers.get("head"),
        ratio=numbers.get("ratio"),
    )


def _worst(rulings: Iterable[Ruling]) -> Ruling:
    """Every run of the head has to meet a sentence: the gravest ruling is the sentence's."""
    return max(rulings, key=lambda ruling: ruling.outcome)


def _first(sentence: Sentence, base: Side, seen: Seen) -> Ruling:
    """The head's first failure against the earliest of the baseline's runs of the same plan."""
    earliest = _earliest(tuple(other for other in base if other.plan == seen.plan))
    limit = sentence.bound.at(None if earliest is None else float(earliest.step))
    if limit is None:
        return _ruling(sentence, Ruled.CANNOT_TELL, f"{seen.run}: no run of the baseline completed a step of its plan")
    if seen.first is None:
        return _ruling(sentence, Ruled.CANNOT_TELL, f"{seen.run}: no step was completed")
    known = earliest is not None and earliest.failed
    outcome = _standing(sentence.sign, seen.first, limit, _slack(sentence, earliest), known=known)
    base_step = None if earliest is None else float(earliest.step)
    said = f"{seen.run}: {_told(seen.first)}{_against(sentence, earliest)}"
    if outcome is Ruled.CANNOT_TELL:
        said += f"; it takes {math.ceil(limit):,} steps to tell"
    return _ruling(sentence, outcome, said, base=base_step, head=float(seen.first.step))


def _earliest(side: Side) -> First | None:
    """The baseline's first failure; without one, as far as any of its runs came."""
    firsts = [seen.first for seen in side if seen.first is not None]
    failed = [first for first in firsts if first.failed]
    if failed:
        return min(failed, key=lambda first: first.step)
    return max(firsts, key=lambda first: first.step, default=None)


def _slack(sentence: Sentence, earliest: First | None) -> float:
    """How many steps earlier is still the same, by the least effect that `compare` takes for one."""
    plain = sentence.bound.factor == 1.0 and not sentence.bound.offset
    if earliest is None or not plain or not sentence.sign.upward:
        return 0.0
    return max(LEAST_STEPS, LEAST_SHARE * earliest.step) if earliest.failed else LEAST_SHARE * earliest.step


def _standing(sign: Sign, first: First, limit: float, slack: float, *, known: bool) -> Ruled:
    """`known`: the limit is where the baseline failed, and not merely as far as it came."""
    if first.failed:
        # A failure that no run of the baseline had is one at whatever step; only of two failures one can be no earlier.
        same = known and limit - slack < first.step <= limit
        return Ruled.MET if same or sign.holds(first.step, limit) else Ruled.NOT_MET
    if sign.upward:
        # Runs that a time limit ends do not end at the same step; hence the slack, but only where none failed.
        enough = sign.holds(first.step + (0.0 if known else slack), limit)
        return Ruled.MET if enough else Ruled.CANNOT_TELL
    return Ruled.NOT_MET if first.step > limit else Ruled.CANNOT_TELL


def _told(first: First) -> str:
    if first.failed:
        return f"first failure at prompt {first.step:,}"
    return f"no failure in {first.step:,} prompts"


def _against(sentence: Sentence, earliest: First | None) -> str:
    return f"; baseline: {_told(earliest)}" if earliest is not None and sentence.bound.relative else ""


def _new(sentence: Sentence, base: Side, head: Side) -> Ruling:
    new = sorted(signatures(head) - signatures(base))
    met = sentence.sign.holds(len(new), sentence.bound.offset)
    said = "no signature that the baseline does not have" if not new else f"new: {'; '.join(new[:3])}"
    return _ruling(sentence, Ruled.MET if met else Ruled.NOT_MET, said, head=float(len(new)))


def _level(sentence: Sentence, base: Side, seen: Seen) -> Ruling:
    value = seen.levels.get(sentence.metric)
    known = [level for other in base if (level := other.levels.get(sentence.metric)) is not None]
    middle = median(known) if known else None
    limit = sentence.bound.at(middle)
    if value is None or limit is None:
        who = seen.run if value is None else "the baseline"
        return _ruling(
            sentence, Ruled.CANNOT_TELL, f"{who}: {sentence.metric} was not observed", base=middle, head=value
        )
    outcome = Ruled.MET if sentence.sign.holds(value, limit) else Ruled.NOT_MET
    said = f"{seen.run}: {_number(value)}" + (f"; baseline {_number(middle)}" if middle is not None else "")
    return _ruling(sentence, outcome, said, base=middle, head=value, ratio=_ratio(middle, value))


def _ratio(base: float | None, head: float) -> float | None:
    return head / base if base else None


def _number(value: float) -> str:
    return f"{value:,.0f}" if value == int(value) else f"{value:,.4g}"
