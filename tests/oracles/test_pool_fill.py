"""The pool-fill step: what shows it, what must not, and that nothing breaks the fold."""

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kvstress.core.events import Event, ServerChange
from kvstress.core.outcome import Kind
from kvstress.core.plan import Origin
from kvstress.core.verdict import PoolFill
from kvstress.oracles import ledger
from kvstress.oracles.pool_fill import PoolFillFold
from tests.oracles.story import (
    RECORDED_CAPACITY,
    RECORDED_LEVELS,
    Story,
    any_events,
    blind,
    repeated_scrapes,
    speedbench,
    with_noise,
)


def fill_of(events: Iterable[Event] | Story) -> PoolFill | None:
    fold = PoolFillFold()
    for event in events.events if isinstance(events, Story) else events:
        fold.see(event)
    return fold.fill


def stepped(step: int, before: dict[str, Any], after: dict[str, Any], tokens: int = 100) -> Story:
    """One quiet step with a new prompt, sent twice, between two scrapes."""
    story = Story().sample("start", **before).begin(step)
    story.send("a", step, "new", tokens).send("b", step, "new", tokens, tokens - 1)
    return story.end(step, **after)


def test_the_recorded_pool_fills_at_prompt_14() -> None:
    fill = fill_of(speedbench(17))
    assert fill == PoolFill(
        step=14,
        how="measured-eviction",
        evidence="16,004 new tokens were cached but free fell by 0: others were put out",
    )


def test_it_fills_at_the_same_prompt_where_hits_are_not_reported() -> None:
    fill = fill_of(speedbench(17, reports_hits=False))
    assert fill == PoolFill(
        step=14, how="measured-eviction", evidence="one request took 16,006 new tokens where 8,704 were free"
    )


def test_the_first_13_prompts_fill_nothing() -> None:
    assert fill_of(speedbench(14)) is None


def test_a_run_that_dies_in_the_step_that_fills_it_knows_from_the_level() -> None:
    story = speedbench(14).begin(14).send("s14.prime", 14, "text 14", 16_005)
    assert fill_of(story) == PoolFill(
        step=14, how="measured-level", evidence="8,704 tokens were free before the step, which took 16,006 new ones"
    )


@pytest.mark.parametrize("counter", ["evictions", "preemptions"])
def test_a_counter_that_rose_during_a_step_fills_it(counter: str) -> None:
    fill = fill_of(stepped(3, {counter: 4}, {counter: 6}))
    assert fill == PoolFill(step=3, how="measured-eviction", evidence=f"{counter} rose from 4 to 6")


def test_a_counter_that_was_high_before_the_run_fills_nothing() -> None:
    assert fill_of(stepped(0, {"evictions": 900}, {"evictions": 900})) is None
    assert fill_of(Story().begin(0).send("a", 0, "new", 10).end(0, evictions=900)) is None


def test_a_counter_that_rose_for_sizing_or_asides_fills_nothing() -> None:
    story = Story().sample("start", evictions=0)
    story.ask("sizing.0", None, "s", origin=Origin.SIZING).answer("sizing.0", 5)
    story.sample("interval", evictions=1)
    story.begin(0).send("a", 0, "new", 10).end(0, evictions=1)
    story.ask("aside.0", None, "a", origin=Origin.ASIDE).answer("aside.0", 5)
    story.sample("end", evictions=2)
    assert fill_of(story) is None


def test_a_restart_is_no_eviction() -> None:
    story = stepped(0, {"evictions": 9, "process_started": 100}, {"evictions": 9, "process_started": 100})
    story.begin(1).send("c", 1, "more", 10).end(1, evictions=0, process_started=200)
    story.begin(2).send("d", 2, "yet more", 10).end(2, evictions=0, process_started=200)
    assert fill_of(story) is None
    story.begin(3).send("e", 3, "still more", 10).end(3, evictions=1, process_started=200)
    assert fill_of(story) == PoolFill(step=3, how="measured-eviction", evidence="evictions rose from 0 to 1")


def test_a_restart_between_steps_empties_the_pool_that_a_sum_counts() -> None:
    story = Story().sample("start", kv_capacity=1000)
    story.begin(0).send("a", 0, "new", 900).end(0, kv_capacity=1000)
    story.server(ServerChange.EXITED).sample("interval", kv_capacity=1000)
    story.begin(1).send("b", 1, "more", 900).end(1, kv_capacity=1000)
    assert fill_of(story) is None


def test_cached_tokens_that_fell_at_rest_fill_the_step() -> None:
    before, after = {"kv_free": 9000, "kv_cached": 5000}, {"kv_free": 8000, "kv_cached": 4000}
    fill = fill_of(stepped(2, before, after))
    assert fill == PoolFill(step=2, how="measured-eviction", evidence="cached tokens fell from 5,000 to 4,000 at rest")


def test_cached_tokens_that_an_old_prefix_still_holds_are_not_evicted() -> None:
    story = stepped(0, {"kv_free": 9000, "kv_cached": 0}, {"kv_free": 8900, "kv_cached": 5000})
    story.begin(1).send("c", 1, "new", 100, 99).end(1, kv_free=8900, kv_cached=4000)
    assert fill_of(story) is None


def test_a_server_that_says_it_is_idle_holds_no_old_prefix() -> None:
    story = stepped(0, {"kv_free": 9000, "kv_cached": 0}, {"kv_free": 8900, "kv_cached": 5000, "running": 0})
    story.begin(1).send("c", 1, "new", 100, 99).end(1, kv_free=8900, kv_cached=4000, running=0)
    fill = fill_of(story)
    assert fill is not None
    assert (fill.step, fill.how) == (1, "measured-eviction")


@pytest.mark.parametrize("kind", [Kind.SERVER_ERROR, Kind.CANCELLED, Kind.RESET, Kind.DEADLINE])
def test_a_request_that_went_wrong_may_take_its_own_tokens_with_it(kind: Kind) -> None:
    story = Story().sample("start", kv_free=9000, kv_cached=5000).begin(0)
    story.send("a", 0, "new", 100).ask("b", 0, "other", tokens=100).answer("b", None, kind=kind)
    assert fill_of(story.end(0, kv_free=9000, kv_cached=4000)) is None


def test_a_flushed_cache_is_no_eviction() -> None:
    story = Story().sample("start", kv_free=9000, kv_cached=5000).begin(0)
    story.ask("f", 0, "", endpoint="/flush_cache").answer("f", None).send("a", 0, "new", 100)
    assert fill_of(story.end(0, kv_free=14000, kv_cached=0)) is None


def test_a_page_more_or_less_is_no_eviction() -> None:
    before, after = {"kv_free": 9000, "kv_cached": 5000}, {"kv_free": 8800, "kv_cached": 4872}
    assert fill_of(stepped(0, before, after, tokens=200)) is None


def test_a_server_still_at_work_is_not_compared() -> None:
    before: dict[str, Any] = {"kv_free": 9000, "kv_cached": 5000, "running": 0}
    assert fill_of(stepped(0, before, {"kv_free": 9000, "kv_cached": 4000, "running": 1})) is None


def test_free_tokens_that_rise_while_a_request_runs_were_another_prompts() -> None:
    story = Story().sample("start", kv_free=9000, kv_cached=50_000).begin(0).ask("a", 0, "new", tokens=100)
    story.sample(kv_free=1000, kv_cached=50_000).sample(kv_free=5000, kv_cached=44_000)
    fill = fill_of(story)
    assert fill == PoolFill(
        step=0, how="measured-eviction", evidence="free tokens rose from 1,000 to 5,000 while no request ended"
    )


def test_free_tokens_that_a_replaced_snapshot_gave_back_are_no_eviction() -> None:
    story = Story().sample("start", kv_free=9000, kv_cached=50_000).begin(0).ask("a", 0, "new", tokens=100)
    story.sample(kv_free=1000, kv_cached=50_000).sample(kv_free=5000, kv_cached=50_000)
    assert fill_of(story) is None


@pytest.mark.parametrize("kind", [Kind.OK, Kind.CANCELLED])
def test_free_tokens_that_rise_after_a_request_ended_may_have_been_its_own(kind: Kind) -> None:
    story = Story().sample("start", kv_free=9000).begin(0).ask("a", 0, "new", tokens=100).ask("b", 0, "too", tokens=50)
    story.sample(kv_free=1000).answer("b", 50, kind=kind).sample(kv_free=5000)
    if kind is Kind.CANCELLED:
        # An abort may reach the server's pool long after we closed the connection.
        story.sample(kv_free=9000)
    assert fill_of(story) is None


def test_a_step_that_needs_more_than_is_free_fills_the_pool() -> None:
    story = Story().sample("start", kv_free=500).begin(0).send("a", 0, "one", 300).send("b", 0, "two", 300)
    assert fill_of(story) == PoolFill(
        step=0, how="measured-level", evidence="500 tokens were free before the step, which took 602 new ones"
    )


def test_a_resend_needs_no_room_for_its_prompt() -> None:
    story = Story().sample("start", kv_free=500).begin(0).send("a", 0, "one", 300).send("b", 0, "one", 300, None)
    assert fill_of(story) is None


def test_a_refused_prompt_takes_no_room() -> None:
    story = Story().sample("start", kv_free=500).begin(0)
    story.ask("a", 0, "one", tokens=900).answer("a", None, kind=Kind.TOO_LONG)
    assert fill_of(story) is None


def test_a_session_turn_needs_only_what_it_adds() -> None:
    story = Story().sample("start", kv_free=500).begin(0)
    story.ask("a", 0, "turn 0", tokens=300, session="s", turn=0).answer("a", 300, None)
    story.end(0, kv_free=199).begin(1)
    story.ask("b", 1, "turn 1", tokens=400, session="s", turn=1).answer("b", 400, None)
    assert fill_of(story) is None


@pytest.mark.parametrize("level", [{"kv_free": 0}, {"kv_usage": 1.0}])
def test_a_pool_without_a_free_token_is_full(level: dict[str, Any]) -> None:
    before: dict[str, Any] = dict.fromkeys(level, 0.5)
    story = Story().sample("start", **before).begin(4).ask("a", 4, "one").sample(**level)
    assert fill_of(story) == PoolFill(step=4, how="measured-level", evidence="no token of the pool was free")


def test_a_gauge_that_never_showed_room_says_nothing() -> None:
    assert fill_of(stepped(0, {"kv_free": 0, "kv_cached": 0}, {"kv_free": 0, "kv_cached": 0}, tokens=0)) is None


def unique_prompts(steps: int, tokens: int = 300, **levels: Any) -> Story:
    """vLLM as it looks from outside: a capacity, and a usage that is 0 at rest."""
    story = Story().sample("start", kv_capacity=1000, kv_usage=0, preemptions=0, **levels)
    for step in range(steps):
        story.begin(step).send(f"s{step}.a", step, f"text {step}", tokens)
        story.end(step, kv_capacity=1000, kv_usage=0, preemptions=0, **levels)
    return story


def test_where_no_level_is_told_the_sum_of_unique_tokens_decides() -> None:
    assert fill_of(unique_prompts(3)) is None
    assert fill_of(unique_prompts(5)) == PoolFill(
        step=3,
        how="derived",
        evidence="1,204 unique tokens sent and generated so far, capacity 1,000; no later resend has shown it yet",
    )


def test_a_resend_that_misses_confirms_the_sum() -> None:
    story = unique_prompts(4).begin(4).send("s4.hit", 4, "text 3", 300, 288).send("s4.miss", 4, "text 0", 300, 0)
    fill = fill_of(story)
    assert fill is not None
    assert fill.step == 3
    assert fill.evidence.endswith(
        "confirmed by s4.miss: of 300 prompt tokens first sent in step 0 only 0 were still cached"
    )


def test_a_resend_adds_nothing_to_the_sum() -> None:
    story = unique_prompts(2)
    for step in range(2, 9):
        story.begin(step).send(f"s{step}.a", step, "text 0", 300, 288).end(step)
    assert fill_of(story) is None


def test_a_shared_prefix_counts_once() -> None:
    story = Story().sample("start", kv_capacity=1000)
    for step in range(9):
        story.begin(step).send(f"s{step}.a", step, f"text {step}", 300, 0 if step == 0 else 280).end(step)
    assert fill_of(story) is None


def test_a_server_that_caches_nothing_is_never_full_of_cached_prompts() -> None:
    story = Story().sample("start", kv_capacity=1000)
    for step in range(9):
        story.begin(step).send(f"s{step}.a", step, f"text {step}", 300, 0)
        story.send(f"s{step}.b", step, f"text {step}", 300, 0).end(step)
    assert fill_of(story) is None


@pytest.mark.parametrize(("queries", "how"), [(None, None), (0, None), (300, "derived")])
def test_a_server_that_looks_nothing_up_is_not_judged_by_a_sum(queries: int | None, how: str | None) -> None:
    story = Story().sample("start", kv_capacity=1000, prefix_queries=0)
    for step in range(9):
        looked_up = None if queries is None else queries * (step + 1)
        story.begin(step).send(f"s{step}.a", step, f"text {step}", 300, None)
        story.end(step, kv_capacity=1000, prefix_queries=looked_up)
    fill = fill_of(story)
    assert (fill.how if fill else None) == how


def test_a_server_that_never_said_whether_resends_hit_is_not_judged_by_a_sum() -> None:
    story = Story().sample("start", kv_capacity=1000)
    for step in range(9):
        story.begin(step).send(f"s{step}.a", step, f"text {step}", 300, None)
        story.send(f"s{step}.b", step, f"text {step}", 300, None).end(step)
    assert fill_of(story) is None


def test_a_derived_fill_stands_when_a_preemption_comes_later() -> None:
    story = unique_prompts(5).begin(5).send("s5.a", 5, "text 5", 300).end(5, kv_capacity=1000, preemptions=3)
    fill = fill_of(story)
    assert fill is not None
    assert (fill.step, fill.how) == (3, "derived")


def test_levels_that_are_told_forbid_the_sum() -> None:
    assert fill_of(unique_prompts(8, kv_free=100_000)) is None


def test_without_capacity_or_levels_nothing_is_claimed() -> None:
    assert fill_of(blind(unique_prompts(9).events)) is None


def test_the_context_length_is_no_capacity() -> None:
    events = with_noise(blind(unique_prompts(9).events), list(range(40)))
    assert fill_of(events) is None


def test_in_the_recorded_run_the_sum_alone_comes_late() -> None:
    long = blind(speedbench(17).events, kv_capacity=RECORDED_CAPACITY - 90_000)
    fill = fill_of(long)
    assert fill is not None
    assert (fill.step, fill.how) == (16, "derived")


def test_a_step_that_starts_again_after_a_kill_is_judged_by_its_second_try() -> None:
    story = Story().sample("start", kv_free=5000, kv_cached=0).begin(0).ask("s0.a", 0, "one", tokens=300)
    story.begin(0).send("s0.a", 0, "one", 300).end(0, kv_free=4700, kv_cached=300)
    story.begin(1).send("s1.a", 1, "two", 300).end(1, kv_free=4700, kv_cached=10)
    fill = fill_of(story)
    assert fill is not None
    assert (fill.step, fill.evidence) == (1, "cached tokens fell from 300 to 10 at rest")


def test_memory_stays_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger, "MEMORY", 10)
    book = ledger.Ledger()
    for number in range(100):
        for event in Story().send(f"r{number}", None, f"text {number}", 5).ask(f"lost{number}", None, "x").events:
            book.see(event)
    assert len(book.open) <= 10
    assert len(book._prompts) <= 10


@given(any_events())
@example(speedbench(17).events[::-1])
def test_no_events_make_the_fold_raise(events: list[Event]) -> None:
    fill = fill_of(events)
    assert fill is None or (fill.how in ("measured-eviction", "measured-level", "derived") and fill.evidence)


@given(any_events(), st.lists(st.integers(0, 25)))
def test_what_says_nothing_about_the_pool_changes_nothing(events: list[Event], places: list[int]) -> None:
    assert fill_of(with_noise(events, places)) == fill_of(events)


@given(st.lists(st.integers(0, 120)), st.booleans())
def test_scraping_more_often_does_not_move_the_fill_step(places: list[int], reports_hits: bool) -> None:
    fill = fill_of(repeated_scrapes(speedbench(17, reports_hits=reports_hits).events, places))
    assert fill is not None
    assert fill.step == 14


def test_the_story_is_as_long_as_its_recording() -> None:
    assert len(RECORDED_LEVELS) == 17
