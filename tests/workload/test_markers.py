"""Planted facts: three lines, one question, the same cost on every prompt; and none where none are wanted."""

import pytest

from kvstress.core.markers import SLOTS, Markers
from kvstress.core.sizing import ASSUMED
from kvstress.workload import sizing, text
from kvstress.workload.build import plan
from kvstress.workload.markers import DEPTHS, facts
from kvstress.workload.spec import Spec, override


@pytest.mark.parametrize("number", range(6))
def test_a_prompt_tells_three_codes_at_their_depths_and_asks_for_one(number: int) -> None:
    told = facts("w/0", number)
    prompt = text.prompt("w/0/k", "A", 4000, told)
    places = [prompt.index(Markers("w/0").marker(number, slot)) / len(prompt) for slot in range(SLOTS)]
    assert places == pytest.approx(DEPTHS, abs=0.03)
    assert prompt.endswith(told.question)
    assert all(prompt.count(line) == 1 for line in told.lines)
    word = told.question.removeprefix("\nWhat is the code for ").removesuffix("?")
    assert f"The code for {word} is {Markers('w/0').marker(number, told.asked)} €." in prompt


def test_a_prompt_without_facts_is_what_it_always_was() -> None:
    assert text.prompt("k", "A", 30) == text.prompt("k", "A", 30, None)
    assert "code" not in text.prompt("k", "A", 3000)


def test_the_shortest_prompt_can_carry_facts_too() -> None:
    assert all(line in text.prompt("k", "A", 1, facts("k", 0)) for line in facts("k", 0).lines)


def _prompts(spec: Spec) -> list[tuple[str, str]]:
    built = plan(spec, seed=3, model="m", stream=None, sizing=ASSUMED, data=None)
    steps = [step for step, _ in zip(built.steps(), range(3), strict=False)]
    return [(one.recipe, one.body["messages"][0]["content"]) for step in steps for one in step.requests]


def test_the_recipe_says_whose_markers_a_prompt_holds_and_what_it_asks(spec: Spec) -> None:
    prompts = _prompts(spec)
    assert [recipe.partition(" markers=")[2] for recipe, _ in prompts[::2]] == ["0 asks=0", "1 asks=1", "2 asks=2"]
    markers = Markers("small/3")
    assert all(markers.marker(number, 0) in prompt for number, (_, prompt) in enumerate(prompts[::2]))


def test_a_workload_that_wants_none_sends_none(spec: Spec) -> None:
    assert not any(
        "markers=" in recipe or "The code for" in prompt
        for recipe, prompt in _prompts(override(spec, {"facts": "false"}))
    )


def test_sizing_carries_facts_where_the_prompts_do_and_never_the_runs_own() -> None:
    sized = sizing.requests("m", 0, told=True)
    bodies = [str(one.body["messages"][0]["content"]) for one in sized]
    assert all(body.count("The code for") == SLOTS for body in bodies)
    assert all("markers=" not in one.recipe for one in sized)
