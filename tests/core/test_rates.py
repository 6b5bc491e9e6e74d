"""Tokens a second by how many were sent at once, and how far a median of few batches may be off."""

from collections.abc import Iterator

import pytest

from kvstress.core.events import Event, RequestSent, StepEnded, StepStarted
from kvstress.core.exchange import Exchange, Usage
from kvstress.core.outcome import Kind
from kvstress.core.plan import Origin
from kvstress.core.rates import Rates, span


@pytest.mark.parametrize(
    ("count", "low", "high", "share"), [(1, 1, 1, 0.0), (5, 1, 5, 0.9375), (6, 1, 6, 0.96875), (9, 2, 8, 0.9609375)]
)
def test_the_interval_of_a_median_is_as_sure_as_the_binomial_says(
    count: int, low: float, high: float, share: float
) -> None:
    values = tuple(float(value) for value in range(count, 0, -1))
    assert span(values) == (low, high, share)


def _batch(step: int, label: str, sizes: tuple[int, ...], seconds: float, kind: Kind = Kind.OK) -> Iterator[Event]:
    began = 100.0 * step
    yield StepStarted(at=began, step=step, label=label)
    for place, tokens in enumerate(sizes):
        name = f"s{step}.answer-{place}"
        yield RequestSent(
            at=began,
            request=name,
            step=step,
            phase="answer",
            origin=Origin.STEP,
            endpoint="/",
            recipe="",
            body_sha256="",
            body_bytes=0,
        )
        ended = began + seconds * (1 if place == 0 else 0.5)
        answer = Exchange(request=name, due=began, sent=began, ended=ended, kind=kind, chunk_at=(began + 0.25,))
        yield answer if kind is not Kind.OK else _counted(answer, tokens)
    yield StepEnded(at=began + seconds, step=step, label=label, seconds=seconds)


def _counted(answer: Exchange, tokens: int) -> Exchange:
    return Exchange(
        request=answer.request,
        due=answer.due,
        sent=answer.sent,
        ended=answer.ended,
        kind=answer.kind,
        chunk_at=answer.chunk_at,
        usage=Usage(completion_tokens=tokens),
    )


def test_a_batch_s_rate_is_all_its_tokens_over_the_time_to_its_last_answer() -> None:
    fold = Rates(warm_up=1)
    batches = [(0, "2 at once", 9.0), (1, "2 at once", 4.0), (2, "1 at once", 1.0), (3, "1 at once", 8.0)]
    for step, label, seconds in batches:
        for event in _batch(step, label, (10,) * int(label[0]), seconds):
            fold.see(event)
    two, one = fold.table()
    assert (two.label, two.rounds, two.first_token) == ("2 at once", (5.0,), 0.25), "the warm-up batch is not measured"
    assert (one.label, one.rounds) == ("1 at once", (1.25,))


def test_a_batch_that_was_not_answered_whole_has_no_rate() -> None:
    fold = Rates()
    for event in (*_batch(0, "a", (8, 8), 2.0), *_batch(1, "a", (8, 8), 2.0, Kind.RESET)):
        fold.see(event)
    (row,) = fold.table()
    assert (row.rounds, row.left_out) == ((8.0,), 1)
