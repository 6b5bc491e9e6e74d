"""FOREIGN and CANARY: what was planted where, computed; and what each is silent about."""

from dataclasses import replace
from typing import Any

import pytest

from kvstress.core.events import Event, RequestSent
from kvstress.core.exchange import Choice, Exchange
from kvstress.core.markers import Markers
from kvstress.core.outcome import Kind
from kvstress.core.verdict import Finding
from kvstress.oracles.canary import Canary
from kvstress.oracles.foreign import REMEMBERED, Foreign
from kvstress.oracles.oracle import OracleMaker
from tests.oracles.runs import answer, manifest, sent

MARKERS = Markers("speedbench/0")
GREEDY = '{"temperature":0.0}'


def asked(number: int, phase: str = "warm", **more: Any) -> RequestSent:
    recipe = f"generated text speedbench/0/{number} units=9 markers={number} asks=1"
    base = replace(sent(number, phase, max_tokens=40), recipe=recipe, options=GREEDY)
    return replace(base, **more)


def said(request: RequestSent, text: str, kind: Kind = Kind.OK, **choice: Any) -> tuple[RequestSent, Exchange]:
    one = Choice(index=0, text=text, finish_reason="stop", **choice)
    return request, replace(answer(request, kind), choices=(one,))


def findings(make: OracleMaker, *pairs: tuple[RequestSent, Exchange]) -> list[Finding]:
    oracle = make(manifest())
    events: list[tuple[Event, RequestSent | None]] = []
    for request, exchange in pairs:
        events += [(request, None), (exchange, request)]
    return [finding for event, request in events for finding in oracle.see(event, request)]


def test_foreign_finds_a_whole_marker_of_another_prompt_wherever_it_stands() -> None:
    theirs = MARKERS.marker(7, 2)
    own = asked(3)
    for pair in (
        said(own, f"it is {theirs}."),
        said(own, f"XX{theirs}YY"),
        said(own, "", reasoning=theirs),
        said(own, "", tool_calls=f'[{{"arguments":"{theirs}"}}]'),
        said(own, theirs, Kind.RESET),
    ):
        (finding,) = findings(Foreign, pair)
        assert "prompt 7" in finding.summary and finding.step == 3


def test_foreign_is_silent_about_a_prompts_own_markers_and_about_letters_that_are_none() -> None:
    own = asked(3)
    assert findings(Foreign, said(own, MARKERS.marker(3, 0)), said(own, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567" * 9)) == []
    assert findings(Foreign, said(own, Markers("other/0").marker(7, 2))) == []
    session = asked(9, recipe="turn markers=3,9 asks=0")
    assert findings(Foreign, said(session, MARKERS.marker(3, 0))) == []


def test_foreign_knows_twelve_characters_of_a_recent_prompt_and_not_eleven() -> None:
    recent = said(asked(7), "fine")
    part = MARKERS.marker(7, 1)
    assert len(findings(Foreign, recent, said(asked(8), f"a {part[2:14]} b"))) == 1
    assert findings(Foreign, recent, said(asked(8), f"a {part[2:13]} b")) == []


def test_foreign_remembers_a_bounded_number_of_parts() -> None:
    oracle = Foreign(manifest())
    for number in range(REMEMBERED + 50):
        oracle.see(asked(number), None)
    assert len(oracle._parts) <= REMEMBERED * 3 * 5


def arms(cold: list[bool], warm: list[bool], **more: Any) -> list[tuple[RequestSent, Exchange]]:
    """Answers, right or wrong, to one prompt after the other: each first cold, then warm."""
    pairs = []
    for number, right in enumerate(cold):
        code = MARKERS.marker(number, 1)
        pairs.append(said(asked(number, "cold", **more), f" is {code}." if right else " is not known."))
        if number < len(warm):
            pairs.append(said(asked(number, "warm", **more), f" is {code}." if warm[number] else " is Q."))
    return pairs


def test_canary_finds_what_is_forgotten_warm() -> None:
    found = findings(Canary, *arms([True] * 10, [False] * 10))
    assert found and found[0].oracle == "CANARY" and "0 of" in (found[0].measured or "")


@pytest.mark.parametrize(
    ("cold", "warm"),
    [
        ([True] * 20, [True] * 20),
        ([False] * 20, [False] * 20),
        ([True, False] * 10, [False, True] * 10),
        ([True] * 20, [True] * 19 + [False]),
    ],
    ids=["all right", "a model that cannot", "a weak model", "one slip"],
)
def test_canary_is_silent(cold: list[bool], warm: list[bool]) -> None:
    assert findings(Canary, *arms(cold, warm)) == []


def test_canary_finds_cold_answers_that_turned_wrong() -> None:
    assert findings(Canary, *arms([True] * 20 + [False] * 5, []))


@pytest.mark.parametrize("more", [{"options": '{"temperature":1.0}'}, {"max_tokens": 8}, {"recipe": "a dataset row"}])
def test_canary_judges_only_greedy_answers_with_room_to_planted_questions(more: dict[str, Any]) -> None:
    assert findings(Canary, *arms([True] * 10, [False] * 10, **more)) == []
