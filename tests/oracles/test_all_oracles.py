"""What holds for every oracle: it raises on no events, judges live as stored, knows no order, and stays small."""

import tracemalloc
from collections.abc import Iterator
from dataclasses import fields, replace
from importlib import import_module
from pkgutil import iter_modules
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kvstress import oracles
from kvstress.core.events import Event, Lagged, PageRead, RequestSent
from kvstress.core.exchange import Choice, Exchange, TokenLogprob, Usage
from kvstress.core.outcome import Kind
from kvstress.core.plan import Expect, Origin
from kvstress.core.sample import Sample
from kvstress.core.verdict import Verdict, worst
from kvstress.oracles import judge as judging
from kvstress.oracles.judge import ORACLES, Judge, judge
from tests.oracles.runs import ended, manifest, step
from tests.oracles.story import any_events
from tests.store.made import RELATED_EVENT

EVERY = tuple(name for name, _ in ORACLES)

_COUNT = st.one_of(st.none(), st.integers(-2, 300))
_FLOAT = st.one_of(st.none(), st.floats(allow_nan=True, allow_infinity=True))
_TEXT = st.sampled_from(["", "fine", "!" * 90, " " * 300, "�", '{"a": 1', '{"a": 1}', "<|reserved_1|>"])
_OPTIONS = st.sampled_from(
    [
        "",
        "no JSON",
        "[]",
        '{"temperature":0,"n":2}',
        '{"temperature":0,"cache_salt":"s","logprobs":true}',
        '{"response_format":{"type":"json_schema"}}',
        '{"response_format":{"type":"json_schema","json_schema":{"schema":{"type":"object","required":["a"]}}}}',
        '{"response_format":"odd","tools":[1,{"function":{"name":"f"}}],"tool_choice":"required"}',
        '{"tools":[{"function":{"name":"f"}}],"tool_choice":{"function":{"name":"f"}}}',
        '{"tools":[{}],"tool_choice":{"function":7}}',
        '{"tools":7,"tool_choice":"required"}',
    ]
)
_LOGPROB = st.builds(
    TokenLogprob, token=_TEXT, logprob=_FLOAT, top=st.lists(st.tuples(_TEXT, _FLOAT), max_size=2).map(tuple)
)
_CALLS = st.sampled_from(
    ["", "[]", "junk", '[{"id":null,"name":"f","arguments":"{"}]', '[{"id":null,"name":"g","arguments":"{}"}]']
)
_CHOICE = st.builds(
    Choice,
    index=st.integers(0, 1),
    text=_TEXT,
    tool_calls=_CALLS,
    finish_reason=st.sampled_from([None, "stop", "length", "tool_calls"]),
    logprobs=st.one_of(st.none(), st.lists(_LOGPROB, max_size=3).map(tuple)),
)
_SENT = st.builds(
    RequestSent,
    at=st.floats(0, 100),
    request=st.sampled_from("abcd"),
    step=st.one_of(st.none(), st.integers(0, 3)),
    phase=st.sampled_from(["health", "capacity", "warm", "cold-salted", "cold-twin", "cold-probe"]),
    stream=st.booleans(),
    session=st.sampled_from([None, "one"]),
    origin=st.sampled_from(Origin),
    endpoint=st.sampled_from(["/v1/chat/completions", "twin:/v1/chat/completions"]),
    recipe=st.sampled_from(["", "generated text w/0/1 units=9", *(f"p markers={n} asks={n}" for n in range(4))]),
    body_sha256=st.sampled_from("xy"),
    body_bytes=st.just(1),
    tokens=_COUNT,
    max_tokens=_COUNT,
    expect=st.sampled_from(Expect),
    options=_OPTIONS,
)
_ANSWER = st.builds(
    Exchange,
    request=st.sampled_from("abcd"),
    due=st.floats(0, 100),
    sent=st.floats(0, 100),
    ended=st.floats(0, 200),
    kind=st.one_of(st.just(Kind.OK), st.sampled_from(Kind)),
    chunk_at=st.lists(st.floats(0, 200), max_size=3).map(tuple),
    choices=st.lists(_CHOICE, max_size=2).map(tuple),
    usage=st.one_of(st.none(), st.builds(Usage, **{field.name: _COUNT for field in fields(Usage)})),
    violations=st.sampled_from([(), ("stream: odd",)]),
)
_LEVELS = {field.name: _FLOAT for field in fields(Sample) if field.type in (float | None, "float | None")}
_SAMPLE = st.builds(
    Sample,
    **_LEVELS | {"at": st.floats(0, 200), "took": st.none()},
    why=st.sampled_from(["start", "end"]),
    raw=st.dictionaries(st.sampled_from(["a_total", "b_total", "x_ratio", "corrupt_total"]), st.floats()),
)
_PAGE = st.builds(
    PageRead,
    at=st.just(1.0),
    path=st.just("/health"),
    status=st.sampled_from([None, 200, 503]),
    problem=st.sampled_from([None, "connection refused: gone"]),
)
_LAG = st.builds(Lagged, at=st.floats(0, 200), seconds=st.floats(0, 99))
ANY = st.lists(st.one_of(_SENT, _ANSWER, _ANSWER, _SAMPLE, _PAGE, _LAG, RELATED_EVENT), max_size=30)


def crashes(events: list[Event]) -> list[str]:
    return [finding.summary for finding in judge(manifest(EVERY), events).findings if ":crashed:" in finding.signature]


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(ANY)
def test_no_oracle_raises_on_any_events(events: list[Event]) -> None:
    assert crashes([*events, ended()]) == []


@settings(max_examples=50, deadline=None)
@given(any_events())
def test_no_oracle_raises_on_the_stories_of_pools(events: list[Event]) -> None:
    assert crashes([*events, ended()]) == []


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(ANY, st.randoms(use_true_random=False))
def test_live_is_as_stored_and_the_order_of_oracles_does_not_matter(events: list[Event], random: Random) -> None:
    live = Judge(manifest(EVERY))
    for event in [*events, ended()]:
        live.see(event)
        live.judgement()
    stored = judge(manifest(EVERY), [*events, ended()])
    assert repr(live.judgement()) == repr(stored)
    mixed = list(ORACLES)
    random.shuffle(mixed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(judging, "ORACLES", tuple(mixed))
        shuffled = judge(manifest(EVERY), [*events, ended()])
    assert (shuffled.verdict, shuffled.steps) == (stored.verdict, stored.steps)
    assert sorted(map(repr, shuffled.findings)) == sorted(map(repr, stored.findings))


@given(st.lists(st.sampled_from(Verdict)), st.lists(st.sampled_from(Verdict), min_size=1))
def test_verdicts_form_a_lattice_in_which_nothing_judged_is_no_pass(some: list[Verdict], more: list[Verdict]) -> None:
    assert worst([]) is Verdict.INCONCLUSIVE
    assert worst(more) == worst([*more, *more]) == worst(reversed(more)) == worst([worst(more)]) >= max(more)
    assert worst([*some, *more]) == max(worst(more), *some, Verdict.PASS)


def _requests(first: int, count: int) -> Iterator[Event]:
    for number in range(first, first + count):
        for event in step(number, Kind.OK, Kind.OK):
            if isinstance(event, RequestSent):
                event = replace(event, recipe=f"generated text w/0/{number} units=9", body_sha256=str(number))
            yield event
        yield Sample(
            at=float(number), why="interval", running=0, generation_tokens=float(number), raw={"a_total": number}
        )


def test_memory_is_bounded_whatever_the_number_of_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("ledger", "usage", "cachedtok", "canary", "residue"):
        monkeypatch.setattr(import_module(f"kvstress.oracles.{module}"), "MEMORY", 500)
    fold = Judge(manifest(EVERY))
    for event in _requests(0, 3_000):
        fold.see(event)
    tracemalloc.start()
    try:
        for event in _requests(3_000, 3_000):
            fold.see(event)
        grown, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert grown < 2_000_000


def test_a_healthy_run_is_no_finding_of_any_oracle() -> None:
    judgement = judge(manifest(EVERY), [*_requests(0, 200), ended()])
    assert (judgement.verdict, judgement.findings) == (Verdict.PASS, ())


def test_each_file_asks_one_question_and_says_what_it_compares_and_what_makes_it_noisy() -> None:
    pages = {name: import_module(f"kvstress.oracles.{name}") for _, name, _ in iter_modules(oracles.__path__)}
    named = {page.NAME: page.__doc__ or "" for page in pages.values() if hasattr(page, "NAME")}
    assert set(named) == set(EVERY)
    for name, page in named.items():
        assert page.startswith(f"{name}: ") and page.splitlines()[0].endswith("?"), name
        assert "Threshold:" in page and "oisy when:" in page, name


def test_every_oracle_is_armed_by_default() -> None:
    from kvstress.workload.format import Oracles

    assert set(Oracles().arm) <= set(EVERY)
    assert set(EVERY) == set(Oracles().arm)
