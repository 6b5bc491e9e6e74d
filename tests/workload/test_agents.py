"""Agent sessions: histories that grow, a shared beginning, and answers quoted where they were given."""

from itertools import islice, pairwise
from pathlib import Path

import pytest

from kvstress.core.plan import Answer, Plan, Step
from kvstress.core.sizing import ASSUMED
from kvstress.workload.build import plan
from kvstress.workload.spec import override, parse

FILE = Path(__file__).resolve().parents[2] / "workloads" / "agents.toml"


def planned(**settings: str) -> Plan:
    spec = override(parse(FILE.read_text(), FILE.name), settings)
    return plan(spec, seed=3, model="m", stream=None, sizing=ASSUMED, data=None)


def messages(step: Step) -> list[dict[str, object]]:
    found: list[dict[str, object]] = step.requests[0].body["messages"]
    return found


def test_each_turn_begins_with_the_whole_of_the_turn_before() -> None:
    steps = [step for step in planned().steps() if step.session == "2"]
    assert len(steps) == 12
    for before, after in pairwise(steps):
        assert messages(after)[: len(messages(before))] == messages(before)
        assert len(messages(after)) == len(messages(before)) + 2


def test_sessions_take_turns_and_share_their_system_prompt_alone() -> None:
    first = list(islice(planned().steps(), 9))
    assert [(step.session, step.requests[0].turn) for step in first] == [(str(s), 0) for s in range(8)] + [("0", 1)]
    systems = {str(messages(step)[0]["content"]) for step in first}
    openings = {str(messages(step)[1]["content"])[:40] for step in first[:8]}
    assert len(systems) == 1 and len(openings) == 8


def test_a_live_answer_is_a_hole_that_names_the_sessions_own_turn() -> None:
    by_index = {step.index: step for step in planned().steps()}
    for step in by_index.values():
        holes = [m["content"] for m in messages(step) if m["role"] == "assistant"]
        for turn, hole in enumerate(holes):
            assert isinstance(hole, Answer)
            quoted = by_index[hole.step]
            assert (quoted.session, quoted.requests[0].turn, hole.phase) == (step.session, turn, "turn")


def test_planned_answers_leave_no_hole() -> None:
    assert not any(
        isinstance(m["content"], Answer) for step in planned(answers="planned").steps() for m in messages(step)
    )


@pytest.mark.parametrize("answers", ["live", "planned"])
def test_the_same_seed_gives_the_same_sessions(answers: str) -> None:
    ours, again = (list(planned(answers=answers).steps()) for _ in range(2))
    assert ours == again
