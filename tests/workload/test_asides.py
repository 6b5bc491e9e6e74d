"""What may be asked beside the traffic, and when it stays away."""

import pytest

from kvstress.core.plan import Expect, Origin
from kvstress.core.sizing import ASSUMED, Sizing
from kvstress.workload.asides import capacity, cold_count, cold_twins, health, health_rounds, probe, probe_tokens
from kvstress.workload.build import plan
from kvstress.workload.spec import Spec, override

MEASURED = Sizing(overhead=10, per_unit=1.0, how="measured")


def test_one_short_tagged_request_asks_whether_the_server_still_generates() -> None:
    asked = health("model", 0)
    assert (asked.id, asked.origin, asked.step) == ("aside.health", Origin.ASIDE, None)
    assert asked.body["max_tokens"] == 1
    assert asked.body["model"] == "model"


@pytest.mark.parametrize(("key", "text"), [("aside.when", "never"), ("max_requests", "0")])
def test_a_workload_can_forbid_it(spec: Spec, key: str, text: str) -> None:
    assert health_rounds(spec, 3) == 3
    assert health_rounds(override(spec, {key: text}), 3) == 0


def test_the_capacity_is_probed_only_where_it_is_asked_for_known_and_within_the_context(spec: Spec) -> None:
    wanted = override(spec, {"aside.capacity": "true"})
    asked = capacity("model", wanted, 0, MEASURED, pool=1000.0, context=None)
    assert asked is not None and asked.tokens == 900
    assert capacity("model", spec, 0, MEASURED, pool=1000.0, context=None) is None
    assert capacity("model", wanted, 0, ASSUMED, pool=1000.0, context=None) is None
    assert capacity("model", wanted, 0, MEASURED, pool=None, context=None) is None
    assert capacity("model", wanted, 0, MEASURED, pool=1000.0, context=950) is None


def test_greedy_prompts_are_asked_again_cold_spread_over_the_run(spec: Spec) -> None:
    wanted = override(spec, {"temperature": "0", "aside.cold": "3"})
    built = plan(wanted, seed=0, model="m", stream=None, sizing=MEASURED, data=None)
    asked = list(cold_twins(built.steps(), 6, cold_count(wanted, twin=False), 3, "salted", None))
    assert [one.id for one in asked] == ["aside.cold.s0.warm", *_cold("s0.warm.1", "s0.warm.2", "s2.warm", "s4.warm")]
    assert {(one.phase, one.origin, one.step) for one in asked} == {("cold-salted", Origin.ASIDE, None)}
    assert len({one.body["cache_salt"] for one in asked}) == 5
    step = next(built.steps())
    assert (asked[0].recipe, asked[0].body["messages"]) == (step.requests[1].recipe, step.requests[1].body["messages"])


def _cold(*names: str) -> list[str]:
    return [f"aside.cold.{name}" for name in names]


def test_answers_that_are_not_greedy_have_nothing_to_be_compared_with(spec: Spec) -> None:
    built = plan(spec, seed=0, model="m", stream=None, sizing=MEASURED, data=None)
    assert list(cold_twins(built.steps(), 6, 3, 3, "twin", "its name")) == []


def test_a_twin_is_asked_unless_asides_are_forbidden(spec: Spec) -> None:
    assert cold_count(spec, twin=False) == 0 < cold_count(spec, twin=True)
    assert cold_count(override(spec, {"aside.when": "never"}), twin=True) == 0


def test_what_is_cold_is_probed_with_a_prompt_as_long_as_the_traffics_whose_size_is_nobodys_claim(spec: Spec) -> None:
    built = plan(spec, seed=0, model="m", stream=None, sizing=MEASURED, data=None)
    length = probe_tokens(built.steps())
    assert 1_700 < length <= 2_000
    plain, salted = (probe("m", built, MEASURED, length, number, how) for number, how in ((1, ""), (2, "salted")))
    assert plain.body["messages"] == salted.body["messages"]
    assert (salted.body["cache_salt"], plain.tokens, plain.expect) == ("kvstress-2", None, Expect.ANSWER_OR_REFUSAL)


@pytest.mark.parametrize(("told", "codes"), [("true", 3), ("false", 0)])
def test_the_capacity_prompt_is_made_as_those_that_were_sized(spec: Spec, told: str, codes: int) -> None:
    wanted = override(spec, {"aside.capacity": "true", "facts": told})
    asked = capacity("model", wanted, 0, MEASURED, pool=1000.0, context=None)
    assert asked is not None and str(asked.body["messages"][0]["content"]).count("The code for") == codes
    assert "markers=" not in asked.recipe
