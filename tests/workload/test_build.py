"""Plans of generated prompts: what is sent, in which order, and that it is always the same."""

import json
import os
import subprocess
import sys
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import pytest

from kvstress.core.plan import Expect, Plan, Step
from kvstress.core.sizing import ASSUMED, Sizing
from kvstress.workload import build
from kvstress.workload.content import sizes
from kvstress.workload.format import Spec
from kvstress.workload.sources import Ramp
from kvstress.workload.spec import override, parse, restore

WORKLOADS = Path(__file__).resolve().parents[2] / "workloads"
MEASURED = Sizing(overhead=20.0, per_unit=1.0, how="measured")


def shipped(name: str, **settings: str) -> Spec:
    return override(parse((WORKLOADS / f"{name}.toml").read_text(), name), settings)


def planned(spec: Spec, **changed: Any) -> Plan:
    given: dict[str, Any] = {"seed": 0, "model": "m", "stream": None, "sizing": MEASURED, "data": None, **changed}
    return build.plan(spec, **given)


def first(plan: Plan, count: int) -> list[Step]:
    return list(islice(plan.steps(), count))


def prompt(step: Step) -> str:
    return str(step.requests[0].body["messages"][0]["content"])


def bodies(plan: Plan, count: int) -> str:
    return json.dumps([request.body for step in first(plan, count) for request in step.requests])


IN_A_PROCESS = """
import hashlib, json, sys
from itertools import islice
from kvstress.core.sizing import Sizing
from kvstress.workload import build
from kvstress.workload.spec import override, parse
spec = override(parse(sys.stdin.read(), "w.toml"), {sys.argv[1]: sys.argv[2]})
sizing = Sizing(overhead=20.0, per_unit=1.0, how="measured")
plan = build.plan(spec, seed=7, model="m", stream=None, sizing=sizing, data=None)
bodies = [request.body for step in islice(plan.steps(), 6) for request in step.requests]
print(plan.digest(), hashlib.sha256(json.dumps(bodies).encode()).hexdigest())
"""


def in_a_process(workload: str, setting: tuple[str, str], hash_seed: str) -> list[str]:
    """The plan's digest and the sha256 of its first six steps' bodies, from a process with that hash seed."""
    said = subprocess.run(
        [sys.executable, "-c", IN_A_PROCESS, *setting],
        input=(WORKLOADS / f"{workload}.toml").read_text(),
        env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(WORKLOADS.parent)},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return said.stdout.split()


# The hashes are written down so that other machines and later releases are held to the same bytes.
@pytest.mark.parametrize(
    ("workload", "setting", "sha256"),
    [
        ("speedbench", ("contexts", "2k,3k"), "e1f3c40bd787c347d29cdda3315e8f444d3ebb89b698323b0a9f11a0ff079c82"),
        ("ramp", ("end", "4k"), "3c0ef4aa0125047d030b7e0dc293a37a61e2f959ff3a60c9acd432802f7751eb"),
    ],
)
def test_the_same_seed_gives_the_same_bytes_in_every_process(
    workload: str, setting: tuple[str, str], sha256: str
) -> None:
    once, again = (in_a_process(workload, setting, hash_seed) for hash_seed in ("0", "4242"))
    assert once == again
    assert once[1] == sha256


def test_speedbench_takes_its_two_sizes_in_turn_and_sends_each_prompt_twice() -> None:
    steps = first(planned(shipped("speedbench")), 4)
    assert [step.label for step in steps] == ["16k", "32k", "16k", "32k"]
    assert [request.id for step in steps[:2] for request in step.requests] == [
        "s0.prime",
        "s0.warm",
        "s1.prime",
        "s1.warm",
    ]
    assert all(step.requests[0].body["messages"] == step.requests[1].body["messages"] for step in steps)


def test_speedbench_is_what_its_report_sent() -> None:
    plan = planned(shipped("speedbench"))
    prime, warm = first(plan, 1)[0].requests
    assert (prime.body["max_tokens"], warm.body["max_tokens"]) == (1, 64)
    assert (prime.body["temperature"], prime.body["stream"]) == (1.0, False)
    assert (plan.schedule.lanes, plan.limits.max_steps, plan.limits.max_duration) == (1, 143, 1500.0)
    assert (plan.coverage, prime.expect) == (("hit", "full"), Expect.ANSWER)


def test_a_prompt_is_as_long_as_the_sizing_says() -> None:
    step = first(planned(shipped("speedbench", spread="0")), 1)[0]
    assert step.requests[0].tokens == 16_000
    assert "units=15980" in step.requests[0].recipe


def test_stand_in_prompts_differ_in_length_below_their_size_as_dataset_rows_do() -> None:
    lengths = [step.requests[0].tokens or 0 for step in first(planned(shipped("speedbench")), 40)]
    for size, found in ((16_000, lengths[::2]), (32_000, lengths[1::2])):
        assert all(0.9 * size <= tokens <= size for tokens in found)
        # Equal lengths free and take pages in lockstep, so that no page ever changes its use.
        assert len(set(found)) > len(found) * 0.8


def test_a_plain_body_holds_nothing_that_was_not_asked_for() -> None:
    body = first(planned(shipped("speedbench")), 1)[0].requests[0].body
    assert list(body) == ["model", "messages", "max_tokens", "temperature", "stream"]


def test_a_streamed_body_asks_for_usage() -> None:
    plan = planned(shipped("speedbench"), stream=True)
    body = first(plan, 1)[0].requests[0].body
    assert (body["stream"], body["stream_options"]) == (True, {"include_usage": True})
    assert plan.parameters["stream"] is True


def test_seed_and_top_p_are_sent_when_they_are_set() -> None:
    body = first(planned(shipped("speedbench", **{"sampling.seed": "3", "top_p": "0.5"})), 1)[0].requests[0].body
    assert (body["seed"], body["top_p"]) == (3, 0.5)


def test_without_a_model_the_body_names_none() -> None:
    assert "model" not in first(planned(shipped("speedbench"), model=None), 1)[0].requests[0].body


def test_generated_speedbench_says_that_it_is_a_stand_in_and_ramp_is_none() -> None:
    bench, ramp = planned(shipped("speedbench")), planned(shipped("ramp"))
    assert (bench.stand_in, ramp.stand_in) == (True, False)
    assert "not SPEED-Bench" in bench.content
    assert bench.total_steps is None


def test_143_prompts_begin_with_143_different_marks() -> None:
    plan = planned(shipped("speedbench", contexts="100,200"))
    beginnings = {prompt(step).partition(":")[0] for step in first(plan, 143)}
    assert len(beginnings) == 143


def test_steps_start_anew_at_each_call() -> None:
    plan = planned(shipped("speedbench", contexts="500"))
    assert bodies(plan, 3) == bodies(plan, 3)


def test_the_digest_does_not_depend_on_sizing_or_model() -> None:
    spec = shipped("speedbench")
    assert planned(spec).digest() == planned(spec, sizing=ASSUMED, model=None).digest()


@pytest.mark.parametrize("changed", [{"seed": 1}, {"stream": True}])
def test_the_digest_depends_on_seed_and_stream(changed: dict[str, Any]) -> None:
    spec = shipped("speedbench")
    assert planned(spec).digest() != planned(spec, **changed).digest()


def test_the_digest_depends_on_every_setting() -> None:
    digests = {
        planned(shipped("speedbench", **{key: text})).digest()
        for key, text in {
            "lanes": "2",
            "contexts": "2k",
            "temperature": "0",
            "warm.max_tokens": "65",
            "seed": "1",
        }.items()
    }
    assert len(digests | {planned(shipped("speedbench")).digest()}) == 6


def test_different_seeds_and_workloads_give_different_text() -> None:
    plans = [planned(shipped("speedbench", contexts="1k"), seed=seed) for seed in (0, 1)] + [planned(shipped("ramp"))]
    assert len({prompt(first(plan, 1)[0]).partition("\n")[2] for plan in plans}) == 3


def test_a_plan_is_made_again_from_its_parameters() -> None:
    plan = planned(shipped("ramp", end="4k", steps="5"), stream=True)
    again = planned(restore(json.loads(json.dumps(plan.parameters))))
    assert (again.digest(), bodies(again, 5)) == (plan.digest(), bodies(plan, 5))


def test_a_ramp_grows_by_a_constant_factor_from_start_to_end() -> None:
    found = sizes(Ramp(start=1000, end=64_000, steps=13))
    assert (found[0], found[-1], len(found)) == (1000, 64_000, 13)
    assert all(later / earlier == pytest.approx(2**0.5, rel=0.001) for earlier, later in pairwise(found))


def test_a_ramp_can_be_flat() -> None:
    assert sizes(Ramp(start=7, end=7, steps=3)) == [7, 7, 7]


def test_the_ramp_workload_lets_a_server_refuse_and_then_ends() -> None:
    spec = shipped("ramp", **{"source.start": "1k", "source.end": "32k", "steps": "6"})
    plan = planned(spec)
    steps = list(plan.steps())
    assert [step.label for step in steps] == ["1k", "2k", "4k", "8k", "16k", "32k"]
    assert plan.total_steps == 6
    assert {request.expect for step in steps for request in step.requests} == {Expect.ANSWER_OR_REFUSAL}
    assert spec.stop.on_refusal


def test_a_phase_that_repeats_is_sent_that_often(spec: Spec) -> None:
    plan = planned(override(spec, {"warm.repeat": "2"}))
    assert plan.phases == ("prime", "warm1", "warm2")
    assert [request.id for request in first(plan, 1)[0].requests] == ["s0.prime", "s0.warm1", "s0.warm2"]


def test_only_speedbench_reads_data_files() -> None:
    assert build.data_stems(shipped("speedbench")) == ("throughput_16k", "throughput_32k")
    assert build.data_stems(shipped("speedbench", contexts="2k,2k,8k")) == ("throughput_2k", "throughput_8k")
    assert build.data_stems(shipped("ramp")) == ()
