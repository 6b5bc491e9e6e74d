"""Sentences about time, where measuring twice gives two numbers: latencies by quantile, and throughput.

A limit on a ratio is held against the prompts that both sides completed, because a head that failed early never
sent the long ones. It is broken only where the ratio's whole interval lies beyond it, with several runs a side:
the same server started twice may differ by more than any commit.
"""

import math
from collections.abc import Sequence

from kvstress.core.ruling import Ruled, Ruling
from kvstress.gate.evidence import Interval, Intervals, Side, Timed, latencies, paces
from kvstress.gate.sentence import Latency, Sentence

ENOUGH_STARTS = 2


def latency(sentence: Sentence, asked: Latency, base: Side, head: Side, intervals: Intervals) -> Ruling:
    """A sentence about a latency, judged on the samples of all runs."""
    ours, theirs = (latencies(side, asked.word, asked.phase) for side in (head, base))
    if not sentence.bound.relative:
        return _absolute(sentence, asked, [value for samples in ours.values() for _, value in samples])
    shared = sorted(ours.keys() & theirs.keys())
    sides = [
        [Timed(prompt=n, run=run, seconds=value) for n, prompt in enumerate(shared) for run, value in side[prompt]]
        for side in (theirs, ours)
    ]
    for who, alone, common in (("the head", ours, sides[1]), ("the baseline", theirs, sides[0])):
        if len(common) < needed(asked.quantile):
            return _unknown(sentence, _too_few(who, len(common), sentence.metric, asked, shared=bool(alone)))
    middle, value = (quantile([timed.seconds for timed in side], asked.quantile) for side in sides)
    said = f"{value:.4g} s of {len(sides[1]):,} samples; baseline {middle:.4g} s"
    span = intervals.quantile(sides[0], sides[1], asked.quantile)
    return _relative(sentence, said, middle, value, span, starts=min(len(base), len(head)))


def throughput(sentence: Sentence, ruling: Ruling, base: Side, head: Side, intervals: Intervals) -> Ruling:
    """A relative sentence about throughput on the prompts that both completed; else `ruling`, which is run by run."""
    ours, theirs = paces(head), paces(base)
    shared = sorted(ours.keys() & theirs.keys())
    if not sentence.bound.relative or not shared:
        return ruling
    sides = [
        [
            Timed(prompt=number, run=run, seconds=seconds, amount=tokens)
            for number, prompt in enumerate(shared)
            for run, tokens, seconds in side[prompt]
        ]
        for side in (theirs, ours)
    ]
    middle, value = (sum(t.amount for t in side) / sum(t.seconds for t in side) for side in sides)
    said = f"{value:,.4g} tokens a second over {len(shared):,} prompts; baseline {middle:,.4g}"
    return _relative(sentence, said, middle, value, intervals.pace(*sides), starts=min(len(base), len(head)))


def _absolute(sentence: Sentence, asked: Latency, values: Sequence[float]) -> Ruling:
    if len(values) < needed(asked.quantile):
        return _unknown(sentence, _too_few("the head", len(values), sentence.metric, asked))
    value = quantile(values, asked.quantile)
    outcome = Ruled.MET if sentence.sign.holds(value, sentence.bound.offset) else Ruled.NOT_MET
    said = f"{value:.4g} s of {len(values):,} samples"
    return Ruling(sentence=sentence.text, outcome=outcome, said=said, head=value)


def _relative(sentence: Sentence, said: str, base: float, head: float, span: Interval | None, *, starts: int) -> Ruling:
    """`starts` is how many runs the side with fewer has: one alone does not show how much two starts differ."""
    limit = sentence.bound.at(base)
    outcome = Ruled.MET if limit is not None and sentence.sign.holds(head, limit) else Ruled.NOT_MET
    ratio = head / base if base > 0.0 else None
    if ratio is not None:
        said += f"; ratio {ratio:.3f}" + (f" (95 %: {span[0]:.3f} to {span[1]:.3f})" if span else "")
    if outcome is Ruled.NOT_MET and (starts < ENOUGH_STARTS or _reaches_back(sentence, span)):
        outcome = Ruled.CANNOT_TELL
        said += "; one run a side does not show how much two starts differ" if starts < ENOUGH_STARTS else ""
    return Ruling(sentence=sentence.text, outcome=outcome, said=said, base=base, head=head, ratio=ratio, interval=span)


def _reaches_back(sentence: Sentence, span: Interval | None) -> bool:
    """The measured ratio is beyond the limit; that the true one is, only an interval wholly beyond it says."""
    factor = sentence.bound.factor
    return factor is not None and span is not None and any(sentence.sign.holds(end, factor) for end in span)


def needed(q: float) -> int:
    """How many samples a quantile takes: with fewer than 1/(1 − q), its estimate is the largest value seen."""
    return 1 if q >= 1.0 else math.ceil(1.0 / (1.0 - q) - 1e-9)


def quantile(values: Sequence[float], q: float) -> float:
    """The `q` quantile, linear between order statistics (Hyndman and Fan's type 7)."""
    ordered = sorted(values)
    place = q * (len(ordered) - 1)
    low = math.floor(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (place - low) * (ordered[high] - ordered[low])


def _unknown(sentence: Sentence, said: str) -> Ruling:
    return Ruling(sentence=sentence.text, outcome=Ruled.CANNOT_TELL, said=said)


def _too_few(who: str, count: int, metric: str, asked: Latency, *, shared: bool = False) -> str:
    if count or shared:
        both = " of prompts that both sides completed" if shared else ""
        return f"{who} has {count:,} samples of {metric}{both}, and it takes {needed(asked.quantile):,}"
    streamed = " (only streamed answers have one: --stream, or gate e2e)" if asked.word != "e2e" else ""
    return f"{who} has no sample of {metric}{streamed}"
