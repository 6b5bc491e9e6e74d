"""Traffic that compares: rounds in two orders, sends that leave together, a transport of a phase's own."""

import pytest

from kvstress.core.plan import Step
from kvstress.core.sizing import ASSUMED
from kvstress.workload.build import plan
from kvstress.workload.spec import parse

ROUNDS = """\
name = "small"
hunts = "a bug"
stream = false

[source]
kind = "rounds"
contexts = ["300", "700"]
prompts = 4
rounds = 5

[[phases]]
name = "ask"
max_tokens = 24

[[phases]]
name = "again"
max_tokens = 24
repeat = 3
together = true
stream = true
"""


@pytest.fixture
def steps() -> list[Step]:
    spec = parse(ROUNDS, "rounds.toml")
    built = plan(spec, seed=1, model="m", stream=None, sizing=ASSUMED, data=None)
    assert built.total_steps == 20
    return list(built.steps())


def test_every_round_sends_all_prompts_and_every_second_one_in_the_same_order(steps: list[Step]) -> None:
    sent = [step.requests[0].recipe for step in steps]
    rounds = [sent[start : start + 4] for start in range(0, 20, 4)]
    assert len(set(sent)) == 4 and all(set(one) == set(sent) for one in rounds)
    assert rounds[0] == rounds[2] == rounds[4] != rounds[1] == rounds[3]
    assert [step.index for step in steps] == list(range(20))


def test_repeats_leave_together_with_the_first_of_them(steps: list[Step]) -> None:
    names = [(one.phase, one.beside) for one in steps[0].requests]
    assert names == [("ask", False), ("again1", False), ("again2", True), ("again3", True)]


def test_a_phase_has_a_transport_of_its_own(steps: list[Step]) -> None:
    assert [one.body["stream"] for one in steps[0].requests] == [False, True, True, True]
    assert "stream_options" in steps[0].requests[1].body and "stream_options" not in steps[0].requests[0].body


def test_log_probabilities_are_asked_for_with_as_many_alternatives() -> None:
    spec = parse(ROUNDS + "\n[sampling]\ntemperature = 0.0\nlogprobs = 5\n", "rounds.toml")
    built = plan(spec, seed=1, model="m", stream=None, sizing=ASSUMED, data=None)
    body = next(built.steps()).requests[0].body
    assert (body["logprobs"], body["top_logprobs"]) == (True, 5)
