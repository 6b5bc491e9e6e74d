"""The interval of a ratio covers the truth about as often as it says, and pairs what is the same prompt."""

from dataclasses import replace
from random import Random

import pytest

from kvstress.gate.evidence import Timed
from kvstress.gate.interval import pace_interval, ratio_interval


def drawn(seed: int, count: int, scale: float = 1.0) -> list[float]:
    random = Random(seed)
    return [scale * random.lognormvariate(0.0, 0.3) for _ in range(count)]


def each(values: list[float], run: int = 0) -> list[Timed]:
    """One sample a prompt."""
    return [Timed(prompt=number, run=run, seconds=value) for number, value in enumerate(values)]


def test_it_holds_the_true_ratio_about_as_often_as_it_says() -> None:
    covered = 0
    for seed in range(60):
        span = ratio_interval(each(drawn(seed, 60)), each(drawn(seed + 1_000, 60, 1.2)), 0.5)
        assert span is not None
        covered += span[0] <= 1.2 <= span[1]
    # 57 are expected of 60; 49 or fewer happen by chance once in a thousand times.
    assert covered >= 50


def test_what_differs_between_prompts_and_not_between_sides_is_no_noise() -> None:
    sizes = [1.0 if number % 2 else 2.0 for number in range(40)]
    noise = Random(3)
    base, head = (each([size * noise.uniform(0.98, 1.02) for size in sizes]) for _ in range(2))
    span = ratio_interval(base, head, 0.5)
    assert span is not None and 0.9 < span[0] < 1.0 < span[1] < 1.1


def test_samples_of_one_prompt_are_no_independent_ones() -> None:
    base, head = ([timed for timed in each(drawn(seed, 40)) for _ in range(20)] for seed in (5, 6))
    single = ratio_interval(each(drawn(5, 40)), each(drawn(6, 40)), 0.5)
    assert single is not None
    assert ratio_interval(base, head, 0.5) == pytest.approx(single, rel=0.1)


def test_starts_that_differ_widen_it_by_as_much() -> None:
    quiet = Random(4)
    steady = [quiet.uniform(0.99, 1.01) for _ in range(40)]
    base = each(steady) + each([1.2 * value for value in steady], run=1)
    alone, both = ratio_interval(each(steady), each(steady), 0.5), ratio_interval(base, base, 0.5)
    assert alone is not None and alone[1] - alone[0] < 0.05
    assert both is not None and both[0] == pytest.approx(1 / 1.2, rel=0.05) and both[1] == pytest.approx(1.2, rel=0.05)


def test_more_prompts_make_it_narrower_and_nothing_makes_it_random() -> None:
    few, many = (ratio_interval(each(drawn(1, n)), each(drawn(2, n)), 0.95) for n in (40, 2_000))
    assert few is not None and many is not None
    assert many[1] - many[0] < (few[1] - few[0]) / 2
    assert ratio_interval(each(drawn(1, 40)), each(drawn(2, 40)), 0.95) == few


def test_the_interval_of_a_pace_holds_the_true_one_and_takes_some_prompts() -> None:
    def steps(seed: int, factor: float, amount: float = 64.0) -> list[Timed]:
        return [replace(timed, amount=amount, seconds=factor * timed.seconds) for timed in each(drawn(seed, 40))]

    covered = 0
    for seed in range(40):
        span = pace_interval(steps(seed, 1.0), steps(seed + 1_000, 1.25))
        assert span is not None
        covered += span[0] <= 0.8 <= span[1]
    # 38 are expected of 40; 31 or fewer happen by chance once in a thousand times.
    assert covered >= 32
    assert pace_interval(steps(1, 1.0)[:7], steps(2, 1.0)[:7]) is None
    assert pace_interval(steps(1, 1.0, amount=0.0), steps(2, 1.0)) is None


@pytest.mark.parametrize(("base", "head"), [([], []), ([1.0] * 7, [1.0] * 7), ([0.0] * 9, [1.0] * 9)])
def test_with_few_prompts_or_a_base_of_zero_there_is_none(base: list[float], head: list[float]) -> None:
    assert ratio_interval(each(base), each(head), 0.5) is None
