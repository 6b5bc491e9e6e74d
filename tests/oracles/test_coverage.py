"""Coverage: reached, not reached, or not observable, for each key; and none by accident."""

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvstress.core.events import Event
from kvstress.core.outcome import Kind
from kvstress.core.plan import Origin
from kvstress.core.verdict import PoolFill
from kvstress.oracles.coverage import CoverageFold
from kvstress.oracles.pool_fill import PoolFillFold
from tests.oracles.story import Story, any_events, blind, speedbench, with_noise

KEYS = ("hit", "full", "evicted", "tier", "aborted", "speculating")


def reached(events: Iterable[Event] | Story, keys: tuple[str, ...] = KEYS) -> dict[str, bool | None]:
    coverage, filling = CoverageFold(keys), PoolFillFold()
    for event in events.events if isinstance(events, Story) else events:
        coverage.see(event)
        filling.see(event)
    return coverage.reached(filling.fill)


def only(events: Iterable[Event] | Story, key: str) -> bool | None:
    return reached(events, (key,))[key]


def test_only_declared_keys_are_answered() -> None:
    assert reached(Story(), ("hit", "nonsense")) == {"hit": None, "nonsense": None}


def test_a_server_that_shows_nothing_leaves_all_but_our_own_deeds_open() -> None:
    story = Story()
    for step in range(3):
        story.begin(step).send(f"s{step}.a", step, f"text {step}", 300, None).end(step)
    assert reached(story) == dict.fromkeys(KEYS, None) | {"aborted": False}


def test_the_recorded_run_hits_fills_and_evicts() -> None:
    assert reached(speedbench(17), ("hit", "full", "evicted")) == {"hit": True, "full": True, "evicted": True}


def test_before_the_pool_fills_the_recorded_run_has_only_hits() -> None:
    assert reached(speedbench(14), ("hit", "full", "evicted")) == {"hit": True, "full": False, "evicted": False}


def test_evictions_show_where_hits_are_not_reported() -> None:
    answers = reached(speedbench(17, reports_hits=False), ("hit", "full", "evicted"))
    assert answers == {"hit": None, "full": True, "evicted": True}


@pytest.mark.parametrize(
    ("cached", "hit"), [(None, None), (0, False), (1, False), (29, False), (30, True), (299, True)]
)
def test_a_hit_is_a_tenth_of_the_prompt(cached: int | None, hit: bool | None) -> None:
    assert only(Story().begin(0).send("a", 0, "text", 300, cached), "hit") is hit


def test_hits_of_sizing_and_failed_requests_do_not_count() -> None:
    story = Story().ask("sizing.0", None, "s", origin=Origin.SIZING).answer("sizing.0", 30, 29).begin(0)
    story.ask("a", 0, "text").answer("a", 300, 299, kind=Kind.SERVER_ERROR)
    assert only(story, "hit") is None


@pytest.mark.parametrize(
    ("after", "hit"),
    [
        ({"prefix_hits": 100, "prefix_queries": 500}, False),
        ({"prefix_hits": 400, "prefix_queries": 500}, True),
        ({"prefix_hits": 110, "prefix_queries": 600}, False),
        ({"prefix_hits": 101}, False),
        ({"prefix_hits": 400}, True),
    ],
    ids=["none", "most", "too few", "one BOS token", "no queries told"],
)
def test_hit_counters_tell_where_answers_do_not(after: dict[str, Any], hit: bool) -> None:
    story = Story().sample("start", prefix_hits=100, prefix_queries=100).begin(0)
    story.send("a", 0, "text", 300, None).end(0, **after)
    assert only(story, "hit") is hit


def test_a_hit_counter_that_fell_is_a_restart_not_a_hit() -> None:
    story = Story().sample("start", prefix_hits=900, prefix_queries=1000)
    story.begin(0).send("a", 0, "text", 300, None).end(0, prefix_hits=50, prefix_queries=60)
    assert only(story, "hit") is False


def timed(prompts: int, warm: float, *, streamed: bool, max_tokens: int = 1) -> Story:
    """Cold prompts that take 10 s each, resent in `warm` seconds, by a server that reports nothing."""
    story = Story()
    for step in range(prompts):
        story.begin(step).ask(f"s{step}.a", step, f"text {step}", max_tokens=max_tokens)
        story.answer(f"s{step}.a", 1000 + step, None, took=10.0, first=9.0 if streamed else None)
        story.ask(f"s{step}.b", step, f"text {step}", max_tokens=64)
        story.answer(f"s{step}.b", 1000 + step, None, took=warm + 1, first=warm if streamed else None).end(step)
    return story


@pytest.mark.parametrize("streamed", [True, False])
def test_resends_in_half_the_time_of_other_prompts_were_hits(streamed: bool) -> None:
    assert only(timed(5, 1.0, streamed=streamed), "hit") is True
    assert only(timed(4, 1.0, streamed=streamed), "hit") is None
    assert only(timed(9, 6.0, streamed=streamed), "hit") is None


def test_a_cold_answer_of_many_tokens_is_no_control() -> None:
    assert only(timed(9, 1.0, streamed=False, max_tokens=64), "hit") is None


@pytest.mark.parametrize(
    ("levels", "full"),
    [
        ({}, None),
        ({"running": 0}, None),
        ({"kv_capacity": 9000}, False),
        ({"kv_usage": 0.94}, False),
        ({"kv_usage": 0.95}, True),
    ],
)
def test_full_is_a_usage_of_95_percent(levels: dict[str, Any], full: bool | None) -> None:
    story = Story().sample("start", kv_usage=0.1 if "kv_usage" in levels else None)
    assert only(story.begin(0).ask("a", 0, "text").sample(**levels), "full") is full


def test_a_preemption_means_full() -> None:
    story = Story().sample("start", kv_capacity=9000, preemptions=2).begin(0)
    assert only(story.send("a", 0, "text", 300).end(0, preemptions=3), "full") is True


def test_a_fill_step_means_full_and_an_evicting_one_evicted() -> None:
    fold = CoverageFold(("full", "evicted"))
    level = PoolFill(step=3, how="measured-level", evidence="e")
    assert fold.reached(level) == {"full": True, "evicted": None}
    assert fold.reached(PoolFill(step=3, how="measured-eviction", evidence="e")) == {"full": True, "evicted": True}


def resent(cached: int, *, size: int = 300) -> Story:
    """A prompt that hit, others, and the first again."""
    story = Story().begin(0).send("s0.a", 0, "old", size, 0).send("s0.b", 0, "old", 300, 288).end(0)
    story.begin(1).send("s1.a", 1, "other", 300, 0).end(1)
    return story.begin(2).send("s2.a", 2, "old", size, cached).end(2)


def test_an_old_prompt_that_hits_no_more_was_evicted() -> None:
    assert only(resent(0), "evicted") is True
    assert only(resent(288), "evicted") is False


def test_a_prompt_shorter_than_any_that_ever_hit_may_be_below_a_block() -> None:
    assert only(resent(0, size=20), "evicted") is False


def test_a_first_resend_that_misses_evicted_nothing_when_nothing_ever_hits() -> None:
    story = Story().begin(0).send("a", 0, "old", 300, 0).end(0).begin(1).send("b", 1, "old", 300, 0).end(1)
    assert only(story, "evicted") is False


@pytest.mark.parametrize(
    ("key", "name"),
    [
        ("aborted", 'vllm:request_success_total{finished_reason="abort"}'),
        ("aborted", "sglang:num_aborted_requests_total"),
        ("aborted", "flare_requests_cancelled_total"),
        ("speculating", "vllm:spec_decode_num_draft_tokens_total"),
        ("speculating", "llamacpp:spec_decode_num_draft_tokens_total"),
        ("speculating", "trtllm_spec_decode_drafted_tokens_total"),
        ("speculating", "flare_draft_tokens_total"),
        ("tier", 'vllm:prompt_tokens_cached_by_source_total{source="host"}'),
        ("tier", "vllm:external_prefix_cache_hits_total"),
        ("tier", 'sglang:cached_tokens_total{cache_source="host"}'),
        ("tier", "trtllm_kv_cache_onboard_bytes_total"),
        ("tier", "kvbm_onboard_blocks_h2d"),
    ],
)
def test_an_engines_own_counter_tells(key: str, name: str) -> None:
    story = Story().sample("start", raw={name: 4.0}).begin(0).ask("a", 0, "t").answer("a", None, kind=Kind.CANCELLED)
    assert only(story, key) is False
    assert only(story.end(0, raw={name: 4.0}), key) is False
    assert only(story.sample("end", raw={name: 5.0}), key) is True


@pytest.mark.parametrize(
    "name",
    [
        "sglang:spec_num_draft_tokens",
        'vllm:prompt_tokens_cached_by_source_total{source="device"}',
        'sglang:cached_tokens_total{cache_source="device"}',
        "flare_prompt_tokens_total",
    ],
)
def test_a_setting_or_another_counter_tells_nothing(name: str) -> None:
    story = Story().sample("start", raw={name: 4.0}).begin(0).end(0, raw={name: 5.0})
    assert reached(story, ("speculating", "tier")) == {"speculating": None, "tier": None}


def test_an_acceptance_above_zero_is_speculation() -> None:
    story = Story().begin(0).end(0, raw={"sglang:spec_accept_length": 0.0})
    assert only(story, "speculating") is False
    assert only(story.sample(raw={"sglang:spec_accept_length": 2.5}), "speculating") is True


def test_a_restart_resets_counters_without_reaching_anything() -> None:
    name = "flare_draft_tokens_total"
    story = Story().sample("start", prompt_tokens=100, raw={name: 4.0}).begin(0)
    assert only(story.end(0, prompt_tokens=5, raw={name: 9.0}), "speculating") is False


def cut(generated: int, **levels: Any) -> Story:
    """One request of 10 tokens completed, one of at most 100 cancelled, and what the server generated meanwhile."""
    story = Story().sample("start", running=0, generation_tokens=1000).begin(0)
    story.ask("a", 0, "one").answer("a", 300, None, output=10)
    story.ask("b", 0, "two", max_tokens=100).answer("b", None, kind=Kind.CANCELLED)
    return story.end(0, running=0, generation_tokens=1000 + generated, **levels)


def test_an_abort_reached_the_server_when_generation_stopped_short() -> None:
    assert only(cut(30), "aborted") is True
    assert only(cut(110), "aborted") is False


def test_an_abort_counter_that_stays_says_less_than_generation_that_stopped() -> None:
    assert only(cut(30, raw={"x_abort_total": 0.0}), "aborted") is True
    assert only(cut(110, raw={"x_abort_total": 0.0}), "aborted") is False


def test_no_abort_was_reached_when_none_was_sent() -> None:
    assert only(Story().begin(0).send("a", 0, "t", 300).end(0, raw={"x_abort_total": 7.0}), "aborted") is False


def test_an_abort_is_not_observable_on_a_server_that_says_nothing() -> None:
    assert only(blind(cut(30).events), "aborted") is None


@given(any_events())
def test_no_events_make_the_fold_raise(events: list[Event]) -> None:
    assert set(reached(events)) == set(KEYS)


@given(any_events(), st.lists(st.integers(0, 25)))
def test_what_says_nothing_changes_nothing(events: list[Event], places: list[int]) -> None:
    assert reached(with_noise(events, places)) == reached(events)


def test_a_pool_that_was_full_before_the_run_was_filled_by_somebody_else() -> None:
    story = Story().sample("start", kv_usage=0.97)
    assert only(story.begin(0).send("a", 0, "t", 300).end(0, kv_usage=0.97), "full") is False
