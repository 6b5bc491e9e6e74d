"""Batching, preemption, cancellation and caching under audit; what was computed never depends on who ran beside it."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvstress.refserver.audit import AuditViolation
from kvstress.refserver.memory import Fix
from kvstress.refserver.sequence import Phase, Sequence
from tests.refserver.driving import Driven, driven, prompt

FIXES = [Fix.ZERO_ON_RELEASE, Fix.CLEAR_DEAD_TAIL, Fix.INERT_MASK]


def assert_balanced(engine: Driven) -> None:
    """Nothing runs, and every page is free, cached or lent."""
    memory = engine.scheduler.memory
    lent = int((memory.pool.alias_count > 0).sum())
    assert memory.pool.free_pages + memory.cache.cached_pages + lent == memory.geometry.pages


def assert_empty(engine: Driven) -> None:
    """After the cache is dropped, all is as at the start."""
    engine.scheduler.memory.drop_all()
    engine.drain()
    pool = engine.scheduler.memory.pool
    assert pool.free_pages == pool.geometry.pages
    assert pool.free_slots == pool.geometry.slots


OPERATIONS = st.lists(
    st.one_of(
        st.tuples(st.just("new"), st.integers(1, 6), st.integers(2, 3000), st.integers(1, 200)),
        st.tuples(st.just("extend"), st.integers(0, 30), st.integers(1, 400), st.integers(1, 60)),
        st.tuples(st.just("cancel"), st.integers(0, 30), st.just(0), st.just(0)),
        st.tuples(st.just("reset"), st.just(0), st.just(0), st.just(0)),
        st.tuples(st.just("steps"), st.integers(1, 12), st.just(0), st.just(0)),
    ),
    max_size=25,
)


def _apply(engine: Driven, sent: list[Sequence], kind: str, which: int, length: int, tokens: int) -> None:
    if kind == "new":
        sent.append(engine.submit(prompt(which, length), tokens))
    elif kind == "extend" and sent:
        base = [int(token) for token in sent[which % len(sent)].tokens]
        sent.append(engine.submit((base + prompt(which, length))[:6000], tokens))
    elif kind == "cancel" and sent:
        sent[which % len(sent)].cancelled = True
        engine.scheduler.cancel(sent[which % len(sent)])
    elif kind == "reset":
        engine.scheduler.memory.drop_all()
    elif kind == "steps":
        for _ in range(which):
            engine.step()


@settings(max_examples=25, deadline=None)
@given(OPERATIONS, st.sampled_from(list(Fix)))
def test_every_page_has_one_owner_whatever_the_traffic(operations: list[tuple[str, int, int, int]], fix: Fix) -> None:
    engine = driven(fix=fix)
    sent: list[Sequence] = []
    for operation in operations:
        _apply(engine, sent, *operation)
    engine.drain()
    assert_balanced(engine)
    assert_empty(engine)
    for sequence in sent:
        assert sequence.cancelled or engine.failed(sequence) or engine.answer(sequence) is not None
    if fix in FIXES:
        assert not any(engine.failed(sequence) for sequence in sent)


def test_the_audit_names_a_page_with_two_owners() -> None:
    engine = driven()
    engine.submit(prompt(1, 500), 1)
    engine.drain()
    engine.scheduler.memory.pool.free[0] = True
    with pytest.raises(AuditViolation, match="page 0 has free list and checkpoint"):
        engine.step()


def test_the_audit_names_a_page_without_an_owner() -> None:
    engine = driven()
    engine.scheduler.memory.pool.free[7] = False
    with pytest.raises(AuditViolation, match="page 7 has no owner"):
        engine.step()


def test_the_audit_names_the_rank_an_incomplete_repair_forgot() -> None:
    engine = driven(fix=Fix.ZERO_ON_RELEASE_RANK0, ranks=2)
    engine.submit(prompt(1, 500), 1)
    engine.drain()
    engine.scheduler.memory.drop_all()
    with pytest.raises(AuditViolation, match=r"rank 1 page \d+ was released by a snapshot and is not zero"):
        engine.drain()


def test_a_full_repair_satisfies_the_audit_on_both_ranks() -> None:
    engine = driven(fix=Fix.ZERO_ON_RELEASE, ranks=2)
    engine.submit(prompt(1, 500), 1)
    engine.drain()
    assert_empty(engine)


@pytest.mark.parametrize("ranks", [1, 2])
def test_a_warm_answer_is_the_cold_answer_and_comes_from_the_cache(ranks: int) -> None:
    engine = driven(ranks=ranks)
    cold = engine.submit(prompt(3, 1000), 40)
    engine.drain()
    warm = engine.submit(prompt(3, 1000), 40)
    engine.drain()
    assert (cold.cached_tokens, warm.cached_tokens) == (0, 999)
    assert engine.answer(cold) == engine.answer(warm)


def test_an_extended_prompt_resumes_and_is_answered_as_if_cold() -> None:
    longer = prompt(3, 1000) + prompt(4, 300)
    engine, fresh = driven(), driven()
    engine.submit(prompt(3, 1000), 1)
    engine.drain()
    resumed, cold = engine.submit(longer, 40), fresh.submit(longer, 40)
    engine.drain()
    fresh.drain()
    assert (resumed.cached_tokens, cold.cached_tokens) == (999, 0)
    assert engine.answer(resumed) == fresh.answer(cold)


def test_another_salt_shares_nothing() -> None:
    engine = driven()
    engine.submit(prompt(3, 1000), 1)
    engine.drain()
    memory = engine.scheduler.memory
    assert memory.cache.lookup(engine.submit(prompt(3, 1000), 1).tokens, "other") is None


def test_preempted_requests_finish_with_the_answers_they_would_give_alone() -> None:
    alone = [driven("35.5G", Fix.INERT_MASK) for _ in range(2)]
    wanted = []
    for seed, engine in enumerate(alone):
        sequence = engine.submit(prompt(seed, 2000), 1300)
        engine.drain()
        wanted.append(engine.answer(sequence))
    together = driven("35.5G", Fix.INERT_MASK)
    both = [together.submit(prompt(seed, 2000), 1300) for seed in range(2)]
    together.drain()
    assert together.scheduler.tally.preemptions > 0
    assert [together.answer(sequence) for sequence in both] == wanted
    assert_empty(together)


def test_a_lone_request_that_outgrows_the_pool_ends_with_what_it_has() -> None:
    engine = driven("35.4G")
    sequence = engine.submit(prompt(1, 2700), 1000)
    engine.drain()
    assert 100 <= len(engine.answer(sequence)) < 1000
    assert_empty(engine)


@pytest.mark.parametrize("phase", [Phase.WAITING, Phase.INBOUND, Phase.PREFILL, Phase.DECODE, Phase.RETIRED])
def test_a_cancelled_request_leaves_nothing_behind_in_any_phase(phase: Phase) -> None:
    engine = driven("40G")
    sequence = engine.submit(prompt(5, 30_000), 3)
    for _ in range(50):
        if sequence.phase is phase:
            break
        engine.step()
    assert sequence.phase is phase
    sequence.cancelled = True
    engine.scheduler.cancel(sequence)
    engine.drain()
    assert_empty(engine)


def test_answers_do_not_depend_on_how_many_run_together() -> None:
    together, alone = driven("40G"), driven("40G")
    batch = [together.submit(prompt(seed, 600), 30, temperature=1.0) for seed in range(8)]
    together.drain()
    for number, sequence in enumerate(batch):
        lone = alone.submit(prompt(number, 600), 30, temperature=1.0)
        alone.drain()
        assert alone.answer(lone) == together.answer(sequence)


def test_a_prompt_whose_cached_prefix_takes_all_the_room_is_computed_anew_and_not_left_waiting() -> None:
    """Nothing runs that could make room, and the cached prompt cannot be evicted while it is to be resumed."""
    whole = prompt(5, 13_300)
    engine = driven()
    engine.submit(whole, 1)
    engine.drain()
    part = engine.submit(whole[:13_000], 1)
    engine.drain()
    assert part.cached_tokens == 0
    assert len(engine.answer(part)) == 1
