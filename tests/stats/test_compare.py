"""Comparisons as sentences: what is called worse, what better, what the same, and when nobody can tell."""

from dataclasses import replace

import pytest

from kvstress.stats.compare import FROM_START, PRIMARY, compare
from kvstress.stats.facts import Change, Comparison, Facts, Row, Side
from kvstress.stats.survival import Time

RULED = (Change.CANNOT_TELL, "by rule")


def run(first: float, *, failed: bool = True, fill: float | None = 13, **more: object) -> Facts:
    facts = Facts(
        run=f"run-{first}",
        first=Time(steps=first, failed=failed),
        fill=fill,
        capacity=480_000.0,
        requests=100,
        signatures=frozenset({"STATUS:500"}) if failed else frozenset(),
    )
    return replace(facts, **more)  # type: ignore[arg-type]


def healthy(steps: float = 143, fill: float | None = 13, **more: object) -> Facts:
    return run(steps, failed=False, fill=fill, **more)


def compared(base: Side, head: Side, ruled: tuple[Change, str] = RULED) -> Comparison:
    return compare(base, head, lambda _base, _head: ruled)


def row(found: Comparison, metric: str) -> Row:
    return next(row for row in found.rows if row.metric == metric)


def test_four_runs_that_fail_against_four_that_do_not_are_a_regression() -> None:
    found = compared((healthy(),) * 4, tuple(map(run, (14, 16, 15, 17))))
    assert found.verdict is Change.REGRESSED
    assert found.rows[0].metric == PRIMARY
    assert row(found, "finding new: STATUS:500").verdict is Change.REGRESSED


def test_the_other_way_round_is_better() -> None:
    assert compared(tuple(map(run, (14, 16, 15, 17))), (healthy(),) * 4).verdict is Change.IMPROVED


@pytest.mark.parametrize("ruled", list(Change))
def test_below_four_runs_a_side_the_rule_answers_and_no_p_value_is_shown(ruled: Change) -> None:
    found = compared((healthy(),) * 3, (run(16),) * 3, (ruled, "by rule"))
    assert found.rows[0].verdict is ruled
    assert all(one.p is None for one in found.rows)


def test_a_smaller_pool_that_fails_as_soon_after_its_fill_is_no_regression() -> None:
    base = tuple(run(at, fill=57, capacity=960_000.0) for at in (59, 60, 61, 60))
    head = tuple(run(at, fill=13, capacity=480_000.0) for at in (15, 16, 17, 16))
    found = compared(base, head)
    assert found.verdict is Change.UNCHANGED
    assert row(found, "capacity").verdict is Change.REGRESSED
    assert row(found, "pool fill").verdict is Change.REGRESSED


def test_without_a_fill_in_every_run_steps_count_from_the_start_and_it_says_so() -> None:
    found = compared((healthy(fill=None), *(healthy(),) * 3), (run(16),) * 4)
    assert found.rows[0].metric == FROM_START
    assert "for 1 run did not show when the pool was full" in found.rows[0].said
    assert found.verdict is Change.REGRESSED


def test_no_failure_on_either_side_is_unchanged_and_printed_with_its_bound() -> None:
    found = compared((healthy(fill=0),), (healthy(fill=0),))
    assert found.verdict is Change.UNCHANGED
    assert "below 2.1 % a step" in found.rows[0].base


def test_a_difference_of_one_step_is_none_even_when_every_run_shows_it() -> None:
    found = compared(tuple(map(run, (16, 16, 16, 16, 16))), tuple(map(run, (15, 15, 15, 15, 15))))
    assert found.rows[0].verdict is Change.UNCHANGED


def test_where_nobody_can_tell_it_says_how_many_more_runs_would() -> None:
    found = compared(tuple(map(run, (14, 20, 40, 15))), tuple(map(run, (14, 17, 15, 22))))
    assert found.rows[0].verdict is Change.CANNOT_TELL
    assert "more runs a side would tell" in found.rows[0].said


def timed(*values: float) -> dict[str, tuple[float, ...]]:
    return {"warm TTFT": values}


SLOW, FAST = tuple(0.2 + k / 1000 for k in range(60)), tuple(0.1 + k / 1000 for k in range(60))


def test_a_latency_that_doubles_in_two_runs_a_side_is_a_regression() -> None:
    found = compared((healthy(samples=timed(*FAST)),) * 2, (healthy(samples=timed(*SLOW)),) * 2)
    assert row(found, "warm TTFT p50").verdict is Change.REGRESSED
    assert found.verdict is Change.REGRESSED
    interval = row(found, "warm TTFT p50").interval
    assert interval is not None and interval[0] > 1.1


def test_a_latency_of_one_run_a_side_never_is_for_two_starts_of_a_server_may_differ_as_much() -> None:
    found = compared((healthy(samples=timed(*FAST)),), (healthy(samples=timed(*SLOW)),))
    assert row(found, "warm TTFT p50").verdict is Change.CANNOT_TELL
    assert "one run a side" in row(found, "warm TTFT p50").said


def test_the_same_latency_is_unchanged_with_its_interval() -> None:
    steady = tuple(0.1 + k / 100_000 for k in range(60))
    found = compared((healthy(samples=timed(*steady)),) * 2, (healthy(samples=timed(*steady)),) * 2)
    assert row(found, "warm TTFT p50").verdict is Change.UNCHANGED
    assert row(found, "warm TTFT p50").interval is not None


def test_throughput_down_is_worse_and_up_is_better() -> None:
    brisk, slow = ((64.0, 1.0),) * 20, ((64.0, 2.0),) * 20
    assert (
        row(compared((healthy(pace=brisk),) * 2, (healthy(pace=slow),) * 2), "throughput").verdict is Change.REGRESSED
    )
    assert row(compared((healthy(pace=slow),) * 2, (healthy(pace=brisk),) * 2), "throughput").verdict is Change.IMPROVED


def test_a_timing_with_too_few_values_has_no_row() -> None:
    found = compared((healthy(samples=timed(0.1, 0.2)),), (healthy(samples=timed(0.1, 0.2)),))
    assert not [one for one in found.rows if one.metric.startswith("warm")]


def test_a_finding_seen_once_among_three_runs_is_not_yet_a_regression() -> None:
    noisy = healthy(signatures=frozenset({"DEGEN:loop"}))
    found = compared((healthy(),) * 3, (noisy, healthy(), healthy()))
    assert row(found, "finding new: DEGEN:loop").verdict is Change.CANNOT_TELL
    again = compared((healthy(),) * 3, (noisy, noisy, healthy()))
    assert row(again, "finding new: DEGEN:loop").verdict is Change.REGRESSED
