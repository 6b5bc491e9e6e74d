"""What a unit of text costs in the server's tokens, from a few short prompts."""

from collections.abc import Callable

import pytest

from kvstress.core.exchange import Exchange, Usage
from kvstress.core.outcome import Kind
from kvstress.core.plan import Origin, Request
from kvstress.core.sizing import ASSUMED
from kvstress.workload import sizing

ASKED = sizing.requests("model", seed=0)


def answered(request: Request, tokens: int | None, kind: Kind = Kind.OK) -> Exchange:
    usage = None if tokens is None else Usage(prompt_tokens=tokens)
    return Exchange(request=request.id, due=0.0, sent=0.0, ended=1.0, kind=kind, usage=usage)


def exchanges(count: Callable[[int], int | None]) -> tuple[Exchange, ...]:
    return tuple(answered(request, count(units)) for request, units in zip(ASKED, sizing.UNITS, strict=True))


def test_sizing_asks_at_most_five_short_greedy_one_token_requests() -> None:
    assert 2 <= len(ASKED) <= 5
    assert max(sizing.UNITS) <= 400
    assert all((one.body["max_tokens"], one.body["temperature"]) == (1, 0.0) for one in ASKED)


def test_sizing_requests_are_tagged_and_belong_to_no_step() -> None:
    assert [(one.id, one.origin, one.step) for one in ASKED] == [
        (f"sizing.{number}", Origin.SIZING, None) for number in range(len(ASKED))
    ]


def test_the_line_through_the_counts_is_found() -> None:
    measured = sizing.measure(ASKED, exchanges(lambda units: 12 + units * 3 // 2))
    assert measured.overhead == pytest.approx(12)
    assert measured.per_unit == pytest.approx(1.5)
    assert measured.how == "measured"


def test_a_request_that_was_refused_is_left_out() -> None:
    refused = (*exchanges(lambda units: 10 + units)[:-1], answered(ASKED[-1], 1, Kind.TOO_LONG))
    assert sizing.measure(ASKED, refused).per_unit == pytest.approx(1.0)


@pytest.mark.parametrize(
    "counts",
    [
        pytest.param(lambda units: None, id="no usage"),
        pytest.param(lambda units: 7, id="always the same count"),
        pytest.param(lambda units: 1000 - units, id="counts that fall"),
        pytest.param(lambda units: 50 if units == sizing.UNITS[0] else None, id="one count only"),
    ],
)
def test_without_usable_counts_the_line_is_assumed_and_says_so(counts: Callable[[int], int | None]) -> None:
    measured = sizing.measure(ASKED, exchanges(counts))
    assert (measured, measured.how) == (ASSUMED, "assumed")


def test_with_nothing_asked_the_line_is_assumed() -> None:
    assert sizing.measure((), ()) == ASSUMED
