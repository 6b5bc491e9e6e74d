"""Met, not met, or nobody can tell: and nothing without samples passes."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from kvstress.core.ruling import Ruled
from kvstress.gate.evidence import First, Intervals, Seen
from kvstress.gate.judging import rule
from kvstress.gate.sentence import parse
from kvstress.gate.timing import needed, quantile


def at(step: int) -> First:
    return First(step=step, failed=True)


def none_in(steps: int) -> First:
    return First(step=steps, failed=False)


def seen(first: First | None, plan: str = "p", signatures: Sequence[str] = (), **levels: float | None) -> Seen:
    return Seen(run="r", plan=plan, first=first, levels=levels, signatures=frozenset(signatures))


def timed(values: Sequence[float]) -> Seen:
    latencies = {("ttft", "warm"): tuple(enumerate(values)), ("ttft", "prime"): ((0, 9.0),)}
    return Seen(run="r", plan="p", first=none_in(9), latencies=latencies)


def paced(rate: float, steps: int = 9) -> Seen:
    return replace(seen(None, throughput=rate), paces=tuple((step, rate, 1.0) for step in range(steps)))


def intervals(span: tuple[float, float] | None) -> Intervals:
    return Intervals(quantile=lambda *_: span, pace=lambda *_: span)


def outcome(text: str, base: Sequence[Seen], head: Sequence[Seen], span: tuple[float, float] | None = None) -> Ruled:
    return rule(parse(text), tuple(base), tuple(head), intervals(span)).outcome


@pytest.mark.parametrize(
    ("base", "head", "expected"),
    [
        (none_in(143), at(14), Ruled.NOT_MET),
        (none_in(143), at(142), Ruled.NOT_MET),
        (none_in(143), none_in(143), Ruled.MET),
        (none_in(89), none_in(87), Ruled.MET),
        (none_in(143), none_in(16), Ruled.CANNOT_TELL),
        (at(16), at(14), Ruled.NOT_MET),
        (at(16), at(15), Ruled.MET),
        (at(100), at(91), Ruled.MET),
        (at(100), at(90), Ruled.NOT_MET),
        (at(16), at(40), Ruled.MET),
        (at(16), none_in(143), Ruled.MET),
        (at(16), none_in(10), Ruled.CANNOT_TELL),
        (at(16), None, Ruled.CANNOT_TELL),
        (None, at(16), Ruled.CANNOT_TELL),
    ],
)
def test_the_first_failure_is_held_against_the_baselines(base: First, head: First, expected: Ruled) -> None:
    assert outcome("first_failure >= baseline", [seen(base)], [seen(head)]) is expected


def test_the_worst_run_of_the_head_decides_against_the_earliest_of_its_own_plan() -> None:
    base = [seen(at(30)), seen(at(20)), seen(at(5), plan="other")]
    assert outcome("first_failure >= baseline", base, [seen(at(19)), seen(at(40))]) is Ruled.MET
    assert outcome("first_failure >= baseline", base, [seen(at(40)), seen(at(12))]) is Ruled.NOT_MET
    assert outcome("first_failure >= baseline", base, [seen(at(4), plan="other")]) is Ruled.MET
    assert outcome("first_failure >= baseline", base, [seen(at(40), plan="third")]) is Ruled.CANNOT_TELL


def test_a_number_needs_no_baseline_and_a_baseline_that_is_missing_is_no_pass() -> None:
    assert outcome("first_failure >= 40", [], [seen(none_in(40))]) is Ruled.MET
    assert outcome("first_failure >= 40", [], [seen(none_in(39))]) is Ruled.CANNOT_TELL
    assert outcome("first_failure >= 40", [], [seen(at(39))]) is Ruled.NOT_MET
    assert outcome("first_failure < 40", [], [seen(none_in(41))]) is Ruled.NOT_MET
    assert outcome("first_failure >= baseline", [], [seen(at(39))]) is Ruled.CANNOT_TELL
    assert outcome("findings.new == 0", [], [seen(at(39))]) is Ruled.CANNOT_TELL


def test_findings_are_new_by_signature() -> None:
    base, head = [seen(at(3), signatures=["a", "b"])], [seen(at(3), signatures=["b"]), seen(at(3), signatures=["c"])]
    assert outcome("findings.new == 0", base, head) is Ruled.NOT_MET
    assert outcome("findings.new <= 1", base, head) is Ruled.MET
    assert outcome("findings.new == 0", base, head[:1]) is Ruled.MET


def test_every_run_has_to_meet_a_level_and_what_was_not_observed_does_not_pass() -> None:
    base = [seen(None, capacity=100.0), seen(None, capacity=300.0), seen(None, capacity=110.0)]
    assert outcome("capacity >= 0.9x", base, [seen(None, capacity=99.0)]) is Ruled.MET
    assert outcome("capacity >= 0.9x", base, [seen(None, capacity=200.0), seen(None, capacity=98.0)]) is Ruled.NOT_MET
    assert outcome("capacity >= 0.9x", base, [seen(None, capacity=None)]) is Ruled.CANNOT_TELL
    assert outcome("capacity >= 0.9x", [seen(None)], [seen(None, capacity=9.0)]) is Ruled.CANNOT_TELL
    assert outcome("errors <= 1.10x", [seen(None, errors=0.0)], [seen(None, errors=1.0)]) is Ruled.NOT_MET


def test_a_ratio_beyond_its_limit_fails_only_with_its_whole_interval() -> None:
    base, head = [timed([1.0] * 20)] * 2, [timed([1.2] * 20)] * 2
    assert outcome("ttft_warm_p95 <= 1.10x", base, head, (1.15, 1.25)) is Ruled.NOT_MET
    assert outcome("ttft_warm_p95 <= 1.10x", base, head, (1.05, 1.35)) is Ruled.CANNOT_TELL
    assert outcome("ttft_warm_p95 <= 1.30x", base, head, (1.05, 1.35)) is Ruled.MET
    assert outcome("ttft_warm_p95 <= 1s", base, head, (0.5, 2.0)) is Ruled.NOT_MET


def test_a_pace_that_is_slower_by_no_more_than_noise_does_not_fail() -> None:
    base, head = [paced(100.0)] * 2, [paced(90.0)] * 2
    assert outcome("throughput >= 0.95x", base, head, (0.85, 0.94)) is Ruled.NOT_MET
    assert outcome("throughput >= 0.95x", base, head, (0.85, 1.02)) is Ruled.CANNOT_TELL
    assert outcome("throughput >= 0.95x", base, head) is Ruled.NOT_MET
    assert outcome("throughput >= 0.85x", base, head, (0.80, 0.99)) is Ruled.MET


def test_one_run_a_side_never_breaks_a_limit_on_time_and_does_not_pass_it_either() -> None:
    base, head = [timed([1.0] * 20)] * 2, [timed([1.2] * 20)]
    assert outcome("ttft_warm_p95 <= 1.10x", base, head, (1.15, 1.25)) is Ruled.CANNOT_TELL
    assert outcome("ttft_warm_p95 <= 1.30x", base, head, (1.15, 1.25)) is Ruled.MET


def test_only_prompts_that_both_sides_completed_are_compared() -> None:
    base, head = [timed([1.0] * 30 + [9.0] * 30)], [timed([1.0] * 30)]
    found = rule(parse("ttft_warm_p90 <= 1.10x"), tuple(base), tuple(head), intervals(None))
    assert (found.outcome, found.base, found.head, found.ratio) == (Ruled.MET, 1.0, 1.0, 1.0)
    slower = rule(parse("throughput >= 0.95x"), (paced(100.0, 50),) * 2, (paced(90.0, 20),) * 2, intervals(None))
    assert slower.outcome is Ruled.NOT_MET and "over 20 prompts" in slower.said


def test_too_few_samples_do_not_pass() -> None:
    few, many = [timed([1.0] * 19)], [timed([1.0] * 20)]
    assert outcome("ttft_warm_p95 <= 1.10x", many, few) is Ruled.CANNOT_TELL
    assert outcome("ttft_warm_p95 <= 1.10x", few, many) is Ruled.CANNOT_TELL
    assert outcome("itl_warm_p50 <= 1s", [], many) is Ruled.CANNOT_TELL
    assert outcome("ttft_warm_p50 <= 1.10x", [timed([1.0] * 30)], [timed([1.0])]) is Ruled.CANNOT_TELL
    assert "only streamed" in rule(parse("itl_p50 <= 1s"), (), tuple(many), intervals(None)).said
    assert [needed(q) for q in (0.5, 0.9, 0.95, 0.99, 1.0)] == [2, 10, 20, 100, 1]


def test_a_quantile_lies_between_order_statistics() -> None:
    assert quantile([3.0, 1.0, 2.0], 0.5) == 2.0
    assert quantile([1.0, 2.0], 0.95) == pytest.approx(1.95)
    assert quantile([1.0, 2.0], 1.0) == 2.0
