"""The study of `compare` in small: the same is seldom called worse, and worse is seen more often with more runs."""

from kvstress.stats.facts import Change
from tests.stats.study import verdicts


def test_the_same_is_seldom_called_regressed() -> None:
    found = verdicts(100, 3)
    assert found.total() == 100
    assert found[Change.REGRESSED] <= 6


def test_five_prompts_earlier_are_seen_more_often_with_more_runs() -> None:
    few, many = (verdicts(20, side, worse=True)[Change.REGRESSED] for side in (3, 10))
    assert many >= 10
    assert many >= few
