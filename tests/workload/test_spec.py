"""What a workload file may say, and the sentence for everything else."""

import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvstress.core.errors import UsageError
from kvstress.workload.format import RESERVED_PHASES, Coverage, Phase, Sampling, Schedule, Spec, Stop
from kvstress.workload.sources import Ramp, SpeedBench
from kvstress.workload.spec import builtins, parse, restore


def sentence(text: str) -> str:
    with pytest.raises(UsageError) as error:
        parse(text, "w.toml")
    assert error.value.exit_code == 2
    return str(error.value)


def test_quantities_with_units_become_plain_numbers(spec: Spec) -> None:
    assert spec.source == SpeedBench(contexts=(2000, 4000))
    assert spec.stop.max_duration == 1500.0


def test_defaults_are_one_closed_lane_not_streamed_at_temperature_one(spec: Spec) -> None:
    assert (spec.schedule, spec.sampling.temperature, spec.stream) == (Schedule(), 1.0, False)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("max_tokens = 64", 'max_tokens = "x"', 'phases[1].max_tokens: expected a positive integer, got "x"'),
        ("max_tokens = 64", "max_tokens = 0", "phases[1].max_tokens: expected a positive integer, got 0"),
        ("max_tokens = 64", "max_tokens = true", "phases[1].max_tokens: expected a positive integer, got true"),
        ("max_tokens = 64", "max_tokens = 1.5", "phases[1].max_tokens: expected a positive integer, got 1.5"),
        ("max_tokens = 64", 'max_tokens = "99999999k"', "phases[1].max_tokens: expected at most 10,000,000"),
        ('"25m"', '"25q"', 'stop.max_duration: expected a duration such as 25m, got "25q"'),
        ('"25m"', "nan", "stop.max_duration: expected a duration such as 25m, got NaN"),
        ('"25m"', f'"{"9" * 400}"', "stop.max_duration: expected at most 100,000,000, got"),
        ('["2k", 4000]', '"2k"', 'source.contexts: expected a non-empty list, got "2k"'),
        ('["2k", 4000]', '["2k", "k"]', 'source.contexts[1]: expected a positive integer, got "k"'),
        ('["2k", 4000]', "[]", "source.contexts: expected a non-empty list, got []"),
        ('"speedbench"', '"sped"', 'source.kind: expected one of "agents", '),
        ('kind = "speedbench"', "", 'source.kind: missing; expected one of "agents", '),
        ('hunts = "a bug"', "", "hunts: missing; expected non-empty text"),
        ('hunts = "a bug"', "hunts = 3", "hunts: expected non-empty text, got 3"),
        ('hunts = "a bug"', 'hunts = "b"\nstream = "q"', 'stream: expected true or false, got "q"'),
        ('hunts = "a bug"', 'hunts = "b"\ngate = 3', "gate: expected a table, got 3"),
        ('name = "warm"', 'name = "War m"', "phases[1].name: expected a name of lower-case letters"),
        ('name = "warm"', 'name = "warm\\n"', "phases[1].name: expected a name of lower-case letters"),
        ('name = "warm"', 'name = "prime"', 'two phases are called "prime"'),
        ('name = "warm"', 'name = "seconds"', 'a phase cannot be called "seconds"'),
        ("[stop]", "[sop]", 'unknown key "sop"; did you mean "stop"?'),
        ("max_duration", "max_durations", 'stop: unknown key "max_durations"; did you mean "max_duration"?'),
        ("max_tokens = 64", "max_tokens = 64\ncap = 3", 'phases[1]: unknown key "cap"; known are name, max_tokens'),
        ("[source]", "[sampling]\ntemperature = -1\n[source]", "sampling.temperature: expected a number of at least 0"),
        (
            "[source]",
            '[schedule]\nkind = "opened"\n[source]',
            'schedule.kind: expected one of "closed", "open", "trace", got "opened"',
        ),
        ("[source]", '[coverage]\nkeys = ["hot"]\n[source]', "coverage.keys[0]: expected one of "),
        ("[source]", "phases = 3\n[source]", "not valid TOML"),
        ('"a bug"', '"a bug', "not valid TOML: Illegal character '\\n' (at line 2, column 15)"),
        ('"25m"', '"""25m', "not valid TOML: Unterminated string (at line 18, the end of the file)"),
    ],
)
def test_a_mistake_is_one_sentence_with_its_path(
    with_change: Callable[[str, str], str], old: str, new: str, said: str
) -> None:
    words = sentence(with_change(old, new))
    assert words.startswith(f"w.toml: {said}")
    assert "\n" not in words


def test_a_ramp_that_goes_down_is_refused(with_change: Callable[[str, str], str]) -> None:
    ramp = with_change('kind = "speedbench"\ncontexts = ["2k", 4000]', 'kind = "ramp"\nstart = "2k"\nend = "1k"')
    assert sentence(ramp) == "w.toml: source: end (1000) must not be smaller than start (2000)"


def test_a_phase_sent_more_than_once_has_numbered_names() -> None:
    assert Phase(name="warm", max_tokens=1, repeat=3).names() == ("warm1", "warm2", "warm3")


def test_numbered_names_may_not_meet_other_names(with_change: Callable[[str, str], str]) -> None:
    text = with_change('name = "prime"', 'name = "warm1"').replace("max_tokens = 64", "max_tokens = 64\nrepeat = 2")
    assert 'two phases are called "warm1"' in sentence(text)


def test_gate_is_kept_as_it_is(good: str) -> None:
    assert parse(f"{good}\n[gate]\nanything = [1, 2]\n", "w.toml").gate == {"anything": [1, 2]}


NAMES = st.from_regex(r"\A[a-h][a-z0-9_-]{0,8}\Z").filter(lambda name: name not in RESERVED_PHASES)
TOKENS = st.integers(1, 10_000_000)
PHASES = st.lists(
    st.builds(Phase, name=NAMES, max_tokens=TOKENS, expect=st.sampled_from(["answer", "answer-or-refusal"])),
    min_size=1,
    max_size=3,
    unique_by=lambda phase: phase.name,
).map(tuple)
RAMPS = st.tuples(TOKENS, TOKENS, st.integers(2, 99)).map(lambda t: Ramp(start=min(t[:2]), end=max(t[:2]), steps=t[2]))
SPEEDBENCHES = st.lists(TOKENS, min_size=1, max_size=4).map(lambda sizes: SpeedBench(contexts=tuple(sizes)))
SPECS = st.builds(
    Spec,
    name=NAMES,
    hunts=st.text(st.characters(codec="utf-8", exclude_categories=["C"]), min_size=1, max_size=20),
    stream=st.booleans(),
    source=RAMPS | SPEEDBENCHES,
    phases=PHASES,
    schedule=st.builds(Schedule, lanes=st.integers(1, 10_000)),
    sampling=st.builds(Sampling, temperature=st.floats(0, 2), seed=st.none() | st.integers(0, 2**63 - 1)),
    stop=st.builds(Stop, max_steps=st.none() | st.integers(1, 9999), max_duration=st.none() | st.floats(0.001, 1e6)),
    coverage=st.builds(Coverage, keys=st.lists(st.sampled_from(["hit", "full", "evicted"]), unique=True).map(tuple)),
)


def toml(value: Any) -> str:
    """`value` as TOML on one line; None has no TOML and is left out of tables."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key} = {toml(item)}" for key, item in value.items() if item is not None) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(toml, value)) + "]"
    return json.dumps(value, ensure_ascii=False)


@given(SPECS)
def test_a_workload_comes_back_from_its_toml(spec: Spec) -> None:
    text = "\n".join(f"{key} = {toml(value)}" for key, value in builtins(spec).items())
    assert parse(text, "w.toml") == spec


@given(SPECS)
def test_a_workload_comes_back_from_a_manifest(spec: Spec) -> None:
    assert restore(json.loads(json.dumps(builtins(spec)))) == spec
