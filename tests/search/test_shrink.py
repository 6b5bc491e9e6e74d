"""Shrinking on simulated servers: the planted cause comes out, and nothing that it needs is lost."""

from dataclasses import replace

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvstress.core.case import Case, Text, pieces
from kvstress.core.plan import Schedule
from kvstress.search.fewer import leave_out
from kvstress.search.fillers import Wording, without_steps
from kvstress.search.keeper import Keeper, Probe, Shown, Shows, sequential
from kvstress.search.passes import fewer_prompts, passes
from kvstress.search.shrink import Spent, shrink
from tests.search.shrink_study import study
from tests.search.simulated import Planted, Pool, Racy, numbered

WORDING = Wording(made=lambda number, text: Text(key=f"made/{number}", mark="B", units=len(text.words or "") // 4))


def shrunk(case: Case, probe: Probe, wording: Wording = WORDING) -> Case:
    async def search() -> Case:
        keeper = Keeper(probe)
        first = await keeper.baseline(case)
        assert first is not None
        return await shrink(first, keeper, passes(wording), tell=lambda name, now: None)

    return anyio.run(search)


def test_the_planted_cause_is_found_exactly_and_sooner_than_by_plain_delta_debugging() -> None:
    found = study(40)
    assert found.exact == 40
    assert found.confirmed < found.ddmin / 2


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 24).flatmap(lambda n: st.tuples(st.just(n), st.sets(st.integers(0, n - 1), min_size=1))))
def test_leaving_out_keeps_exactly_what_is_needed_however_much_that_is(planted: tuple[int, set[int]]) -> None:
    count, needed = planted
    asked = []

    async def still(case: Case) -> Case | None:
        asked.append(case.digest())
        return case if needed <= {step.index for step in case.steps} else None

    def parts(case: Case) -> list[int]:
        return [step.index for step in case.steps]

    found = anyio.run(leave_out, numbered(count), still, parts, without_steps)
    assert {step.index for step in found.steps} == needed
    assert len(asked) <= 2 * count + 8


@pytest.mark.parametrize("cause", [["s4.prime", "s11.warm"], ["s11.prime", "s11.warm"], ["s0.warm"]])
def test_a_shrunk_case_has_only_the_sends_that_matter_and_they_are_plain(cause: list[str]) -> None:
    found = shrunk(numbered(16, phases=("prime", "warm")), Planted(cause))
    assert [request.id for request in found.requests] == cause
    for request in found.requests:
        assert request.body["max_tokens"] == 1
        assert request.body["temperature"] == 0.0
        assert request.body["stream"] is False
        assert "top_p" not in request.body
    assert all(text.units == 6 for text in found.used().values())


def test_what_is_shortened_stays_the_same_text_in_all_its_sends() -> None:
    found = shrunk(numbered(16, phases=("prime", "warm")), Pool(6000))
    prime, warm = found.steps[-1].requests
    assert list(pieces(prime.body)) == list(pieces(warm.body))


def test_fillers_are_joined_until_one_takes_the_pages_of_all() -> None:
    found = shrunk(numbered(16, phases=("prime", "warm")), Pool(6000))
    assert found.size().prompts == 2
    taken = sum(text.units for text in found.used().values())
    assert 6000 <= taken <= 1.2 * 6000


def test_fillers_are_not_joined_beyond_the_context() -> None:
    found = shrunk(numbered(16, phases=("prime", "warm")), Pool(6000), replace(WORDING, longest=1500))
    assert all(text.units <= 1500 for text in found.used().values())


def test_where_answers_share_no_pages_one_filler_with_many_answers_takes_the_place_of_all() -> None:
    found = shrunk(numbered(16, phases=("prime", "warm")), Pool(6000, sharing=False), replace(WORDING, longest=1500))
    assert found.size().prompts <= 2
    assert any(request.body.get("n", 1) > 1 for request in found.requests)


def test_a_smaller_pool_is_filled_by_fewer_prompts() -> None:
    case = replace(numbered(16, phases=("prime", "warm")), value=50)
    found = shrunk(case, Pool(6000), replace(WORDING, longest=600))
    assert found.value is not None
    assert found.value <= 5
    assert found.size().prompts <= 2


def test_given_text_is_replaced_by_generated_text_where_only_its_length_matters() -> None:
    case = numbered(4)
    given_text = replace(case, texts={name: Text(words="word " * 300) for name in case.texts})
    found = shrunk(given_text, Planted(["s1.send", "s3.send"]))
    assert all(text.words is None for text in found.used().values())


def test_a_seldom_failure_is_shrunk_without_being_lost() -> None:
    launches = []
    for seed in range(12):
        server = Planted(["s2.send", "s9.send"], rate=0.3, seed=seed)
        keeper = Keeper(server)
        first = anyio.run(keeper.baseline, numbered(12))
        if first is None:
            continue
        found = anyio.run(lambda: shrink(first, keeper, (("fewer prompts", fewer_prompts),), tell=lambda *_: None))  # noqa: B023
        assert {"s2.send", "s9.send"} <= {request.id for request in found.requests}
        launches.append(server.probes)
    assert len(launches) >= 10
    assert sum(launches) / len(launches) < 150


def test_three_failures_keep_a_case_and_one_pass_drops_it_where_the_run_always_fails() -> None:
    test = sequential(None)
    assert [test.decided(failed, 0) for failed in range(4)] == [None, None, None, True]
    assert test.decided(0, 1) is False
    assert test.decided(2, 1) is None


def test_seven_failures_keep_a_case_that_asks_for_more_at_once_than_the_run_did() -> None:
    test = sequential(None, broader=True)
    assert [test.decided(failed, 0) for failed in (1, 6, 7)] == [None, None, True]
    assert test.decided(2, 1) is False


def test_a_case_that_fails_in_half_of_its_launches_is_left_for_one_that_always_fails() -> None:
    cases = [
        shrunk(numbered(8, phases=("prime", "warm")), Racy(4000, seed), replace(WORDING, longest=600))
        for seed in range(40)
    ]
    # Seven failures in a row come by chance once in 128 of such cases; three would come once in eight.
    assert sum(case.breadth > 1 for case in cases) <= 2


def test_a_case_is_never_kept_without_a_failure_that_was_seen() -> None:
    for rate in (0.05, 0.3, 0.9):
        assert not any(sequential(rate).decided(0, passed) for passed in range(200))


def test_a_lucky_failure_does_not_end_up_as_the_reproducer() -> None:
    """All 12 prompts always fail; fewer only now and then, which one probe each would take for enough."""
    draws = iter([True, *[False] * 400])

    async def probe(case: Case) -> Shown:
        whole = len(case.steps) == 12
        fails = whole or next(draws)
        return Shown(shows=Shows.SAME if fails else Shows.PASSED, sent=len(case.steps), at=len(case.steps) - 1)

    assert len(shrunk(numbered(12), probe).steps) == 12


def test_a_search_cut_off_by_its_bound_gives_the_best_case_so_far() -> None:
    server = Planted(["s3.send", "s9.send"])

    async def probe(case: Case) -> Shown:
        if server.probes >= 9:
            raise Spent
        return await server(case)

    found = shrunk(numbered(40), probe)
    assert {"s3.send", "s9.send"} <= {request.id for request in found.requests}
    assert len(found.steps) < 40


def test_the_same_answers_lead_to_the_same_questions() -> None:
    async def asked(cause: list[str]) -> list[str]:
        server, digests = Planted(cause), []

        async def probe(case: Case) -> Shown:
            digests.append(case.digest())
            return await server(case)

        keeper = Keeper(probe)
        first = await keeper.baseline(numbered(30))
        assert first is not None
        await shrink(first, keeper, passes(WORDING), tell=lambda name, now: None)
        return digests

    assert anyio.run(asked, ["s3.send", "s9.send"]) == anyio.run(asked, ["s3.send", "s9.send"])


def test_a_run_that_never_fails_again_is_given_up_after_a_few_probes() -> None:
    server = Planted(["nothing that is sent"])
    assert anyio.run(Keeper(server).baseline, numbered(5)) is None
    assert server.probes == 8


def test_a_server_that_cannot_be_judged_is_not_taken_for_one_that_passes() -> None:
    async def probe(case: Case) -> Shown:
        return Shown(shows=Shows.UNJUDGED, why="the launch died")

    keeper = Keeper(probe)
    assert anyio.run(keeper.baseline, numbered(3)) is None
    assert keeper.tally(numbered(3)) == (0, 0)


def test_lanes_and_options_that_do_not_matter_are_dropped() -> None:
    case = replace(numbered(8), schedule=Schedule(lanes=8))
    assert shrunk(case, Planted(["s5.send"])).schedule.lanes == 1
