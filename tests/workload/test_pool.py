"""Groups sized by the KV pool: the shares mean the server's capacity, and nothing is sent when nobody says it."""

from dataclasses import replace

import pytest

from kvstress.core.errors import UsageError
from kvstress.core.plan import Expect, Step
from kvstress.core.sizing import Sizing
from kvstress.harness.inputs import workload_text
from kvstress.workload import build
from kvstress.workload.spec import override, parse

MEASURED = Sizing(overhead=10.0, per_unit=1.0, how="measured", capacity=10_000)


def steps(name: str, sizing: Sizing, **settings: str) -> list[Step]:
    spec = override(parse(*workload_text(name)), settings)
    return list(build.plan(spec, seed=0, model="m", stream=None, sizing=sizing, data=None).steps())


def test_shares_are_of_the_capacity_that_the_server_tells() -> None:
    found = steps("oversize", MEASURED)
    large = [[one.tokens for one in step.requests if one.tokens] for step in found]
    assert large == [[5000], [9000], [10000], [10200], [13000], [9000] * 2, [10000] * 2, [13000] * 2]
    assert [step.label for step in found[4:6]] == ["1.3C", "0.9C+0.9C"]


def test_innocents_leave_beside_pairs_at_the_same_moment_and_are_asked_for_a_code() -> None:
    alone, pair = steps("oversize", MEASURED)[0], steps("oversize", MEASURED)[5]
    assert len(alone.requests) == 1
    assert [request.beside for request in pair.requests] == [False, True, True, True]
    assert all("markers=" in request.recipe for request in pair.requests[2:])
    # They fit whatever happens, so refusing them, or leaving their codes unsaid, is harm.
    assert [(one.expect, one.body["max_tokens"]) for one in pair.requests[2:]] == [(Expect.ANSWER, 32)] * 2
    assert pair.requests[0].expect is Expect.ANSWER_OR_REFUSAL


def test_an_empty_group_is_the_idle_arm() -> None:
    pressed, idle = steps("pinned", MEASURED)[:2]
    assert (len(pressed.requests), len(idle.requests), idle.label) == (10, 4, "idle")
    assert {request.body["max_tokens"] for request in pressed.requests} == {500, 32}


def test_a_capacity_that_is_set_wins_and_one_that_nobody_says_is_refused() -> None:
    assert steps("oversize", MEASURED, **{"source.capacity": "2k"})[0].requests[0].tokens == 1000
    with pytest.raises(UsageError, match=r"--set source\.capacity=16k"):
        steps("oversize", replace(MEASURED, capacity=None))


def test_no_two_prompts_of_a_run_are_the_same() -> None:
    bodies = [str(request.body["messages"]) for step in steps("pinned", MEASURED) for request in step.requests]
    assert len(set(bodies)) == len(bodies)
