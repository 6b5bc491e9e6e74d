"""What a phase asks for beside its prompt reaches the request, and nothing else does."""

import pytest

from kvstress.core.errors import UsageError
from kvstress.core.plan import Cancel, CancelAt, Request
from kvstress.core.sizing import ASSUMED
from kvstress.workload.asking import SCHEMA
from kvstress.workload.build import plan
from kvstress.workload.spec import parse


def _first(phase: str) -> Request:
    text = f"""
        name = "w"
        hunts = "x"
        [source]
        kind = "speedbench"
        [[phases]]
        name = "one"
        max_tokens = 8
        {phase}
        [stop]
        max_steps = 1
    """
    made = plan(parse(text, "w"), seed=0, model="m", stream=None, sizing=ASSUMED, data=None)
    return next(iter(made.steps())).requests[0]


def test_a_schema_is_promised_in_the_response_format() -> None:
    body = _first('shape = "schema"').body
    assert body["response_format"]["json_schema"]["schema"] == SCHEMA
    assert "tools" not in body


def test_a_tool_is_forced_by_name() -> None:
    body = _first('shape = "tool"').body
    assert body["tool_choice"]["function"]["name"] == body["tools"][0]["function"]["name"]
    assert "response_format" not in body


def test_free_text_asks_for_neither() -> None:
    request = _first("")
    assert request.cancel is None
    assert not {"response_format", "tools", "tool_choice"} & set(request.body)


@pytest.mark.parametrize(
    ("phase", "expected"),
    [
        ('cancel = "first-chunk"', Cancel(at=CancelAt.FIRST_CHUNK, chunks=1)),
        ('cancel = "decode"', Cancel(at=CancelAt.DECODE, chunks=4)),
        ('cancel = "prefill"', Cancel(at=CancelAt.PREFILL, after=0.1)),
        ('cancel = "decode"\ncancel_after = "2s"', Cancel(at=CancelAt.DECODE, after=2.0)),
    ],
)
def test_a_connection_is_closed_where_the_phase_says(phase: str, expected: Cancel) -> None:
    assert _first(phase).cancel == expected


def test_a_time_without_a_cancellation_is_refused() -> None:
    with pytest.raises(UsageError, match="cancel_after needs cancel"):
        _first('cancel_after = "2s"')
