"""A limit on time is not broken by a server that was only started again, and a slower server does not pass it."""

from collections import Counter
from random import Random

from kvstress.core.ruling import Ruled
from kvstress.gate.evidence import First, Intervals, Seen
from kvstress.gate.interval import pace_interval, ratio_interval
from kvstress.gate.judging import rule
from kvstress.gate.sentence import parse

INTERVALS = Intervals(quantile=ratio_interval, pace=pace_interval)
PROMPTS, PAIRS, NOISE = 60, 25, 0.1


def run(random: Random, starts: float, slower: float) -> Seen:
    """A run of two prompt sizes on a server that differs by `starts` from one start to the next."""
    start = slower * random.lognormvariate(0.0, starts)
    seconds = [start * (0.2, 0.3)[step % 2] * random.lognormvariate(0.0, NOISE) for step in range(PROMPTS)]
    first = First(step=PROMPTS, failed=False)
    return Seen(run="r", plan="p", first=first, latencies={("e2e", "warm"): tuple(enumerate(seconds))})


def rulings(starts: float, slower: float) -> Counter[Ruled]:
    """What PAIRS gates of two runs a side came to."""
    random, sentence = Random(7), parse("e2e_warm_p50 <= 1.10x")
    sides = [[tuple(run(random, starts, factor) for _ in range(2)) for factor in (1.0, slower)] for _ in range(PAIRS)]
    return Counter(rule(sentence, base, head, INTERVALS).outcome for base, head in sides)


def test_the_same_server_started_again_never_breaks_the_limit() -> None:
    assert rulings(0.05, 1.0)[Ruled.NOT_MET] == 0


def test_a_server_that_is_a_quarter_slower_does_not_pass_and_is_mostly_called() -> None:
    found = rulings(0.02, 1.25)
    assert found[Ruled.MET] == 0 and found[Ruled.NOT_MET] > PAIRS / 2
