"""`--set KEY=VALUE`: what a key may name, and how its value is read."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvstress.core.errors import UsageError
from kvstress.workload import settings, shape
from kvstress.workload.format import Phase, Spec
from kvstress.workload.sources import Ramp, SpeedBench
from kvstress.workload.spec import builtins, override

RAMP = Spec(name="r", hunts="h", source=Ramp(start=1000, end=8000), phases=(Phase(name="p", max_tokens=1),))


def sentence(spec: Spec, key: str, text: str) -> str:
    with pytest.raises(UsageError) as error:
        override(spec, {key: text})
    return str(error.value)


@pytest.mark.parametrize("key", ["max_steps", "stop.max_steps"])
def test_a_setting_goes_by_its_path_or_its_last_word(spec: Spec, key: str) -> None:
    assert override(spec, {key: "20"}).stop.max_steps == 20


@pytest.mark.parametrize("text", ["2k,4k", "2000, 4000", '["2k", 4000]', "[2k,4k]"])
def test_a_list_is_given_with_commas(spec: Spec, text: str) -> None:
    assert override(spec, {"contexts": text}).source == SpeedBench(contexts=(2000, 4000))


@pytest.mark.parametrize("key", ["phases.warm.max_tokens", "phases[1].max_tokens", "warm.max_tokens"])
def test_a_phase_goes_by_its_name_or_its_place(spec: Spec, key: str) -> None:
    changed = override(spec, {key: "1k"})
    assert [phase.max_tokens for phase in changed.phases] == [1, 1000]


def test_a_ramp_is_set_by_start_end_and_steps() -> None:
    changed = override(RAMP, {"end": "32k", "start": "2k", "source.steps": "8"})
    assert changed.source == Ramp(start=2000, end=32_000, steps=8)


def test_two_settings_are_both_applied_and_the_rest_stays(spec: Spec) -> None:
    changed = override(spec, {"lanes": "4", "stream": "yes"})
    assert (changed.schedule.lanes, changed.stream) == (4, True)
    assert changed.phases == spec.phases


def test_none_lifts_a_limit(spec: Spec) -> None:
    assert override(spec, {"max_duration": "none"}).stop.max_duration is None


def test_a_gate_takes_any_key(spec: Spec) -> None:
    assert override(spec, {"gate.steps": "20", "gate.words": "some text"}).gate == {"steps": 20, "words": "some text"}


@pytest.mark.parametrize(
    ("key", "text", "said"),
    [
        ("lanes", "x", '--set lanes=x: schedule.lanes: expected a positive integer, got "x"'),
        ("lanes", "0", "--set lanes=0: schedule.lanes: expected a positive integer, got 0"),
        ("contexts", "2k,zz", '--set contexts=2k,zz: source.contexts[1]: expected a positive integer, got "zz"'),
        ("contexts", "", "--set contexts=: source.contexts: expected a non-empty list, got []"),
        ("stream", "maybe", '--set stream=maybe: stream: expected true or false, got "maybe"'),
        (
            "temperature",
            "hot",
            '--set temperature=hot: sampling.temperature: expected a number of at least 0 and at most 100, got "hot"',
        ),
        ("seed", "1.5", '--set seed=1.5: sampling.seed: expected an integer of at least 0, got "1.5"'),
        ("on_refusal", "so", '--set on_refusal=so: stop.on_refusal: expected true or false, got "so"'),
    ],
)
def test_a_value_that_does_not_fit_names_its_path(spec: Spec, key: str, text: str, said: str) -> None:
    assert sentence(spec, key, text) == said


def test_a_word_that_two_paths_end_in_is_refused_with_both(spec: Spec) -> None:
    said = sentence(spec, "max_tokens", "3")
    assert '"max_tokens" could be any of phases.prime.max_tokens, phases.warm.max_tokens' in said


def test_an_unknown_setting_names_the_nearest_and_lists_what_can_be_set(spec: Spec) -> None:
    said = sentence(spec, "max_step", "3")
    assert 'nothing is called "max_step"; did you mean "max_steps"?' in said
    assert all(path in said for path in settings.settable(builtins(spec)))


@pytest.mark.parametrize("key", ["", ".", "phases[9].max_tokens", "source.kind", "phases"])
def test_what_is_not_a_value_cannot_be_set(spec: Spec, key: str) -> None:
    assert f'nothing is called "{key}"' in sentence(spec, key, "3")


def typed(value: object) -> str:
    """`value` as a person types it."""
    if isinstance(value, list):
        return ",".join(map(str, value))
    return "none" if value is None else str(value)


@pytest.mark.parametrize("workload", [RAMP, Spec(name="s", hunts="h", source=SpeedBench(), phases=RAMP.phases)])
def test_setting_any_value_to_what_it_is_changes_nothing(workload: Spec) -> None:
    data = builtins(workload)
    for leaf in shape.leaves(shape.ROOT, data):
        _, value = shape.at(shape.ROOT, data, leaf.steps)
        if leaf.path != "gate":
            assert override(workload, {leaf.path: typed(value)}) == workload, leaf.path


@given(st.text(max_size=20), st.text(max_size=20))
def test_no_setting_ends_in_anything_but_a_workload_or_a_sentence(key: str, text: str) -> None:
    try:
        assert isinstance(override(RAMP, {key: text}), Spec)
    except UsageError as error:
        assert str(error).startswith("--set ")


@given(st.sampled_from(settings.settable(builtins(RAMP))), st.text(max_size=20))
def test_no_value_ends_in_anything_but_a_workload_or_a_sentence(key: str, text: str) -> None:
    try:
        assert isinstance(override(RAMP, {key: text}), Spec)
    except UsageError as error:
        assert str(error).startswith("--set ")


@given(st.lists(st.integers(1, 10_000_000), min_size=1, max_size=5))
def test_contexts_come_back_as_they_were_set(contexts: list[int]) -> None:
    workload = Spec(name="s", hunts="h", source=SpeedBench(), phases=RAMP.phases)
    assert override(workload, {"contexts": ",".join(map(str, contexts))}).source == SpeedBench(contexts=tuple(contexts))
