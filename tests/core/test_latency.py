"""Each latency word has one definition."""

import pytest

from kvstress.core.exchange import Exchange, Usage
from kvstress.core.latency import e2e, itl, tpot, ttft, ttft_from_due
from kvstress.core.outcome import Kind


def _exchange(chunk_at: tuple[float, ...], tokens: int | None = None) -> Exchange:
    usage = None if tokens is None else Usage(completion_tokens=tokens)
    return Exchange(request="r", due=9.0, sent=10.0, ended=13.0, kind=Kind.OK, chunk_at=chunk_at, usage=usage)


def test_ttft_counts_from_the_send_and_separately_from_when_it_was_due() -> None:
    assert (ttft(_exchange((10.5, 11.0))), ttft_from_due(_exchange((10.5, 11.0)))) == (0.5, 1.5)


def test_an_answer_that_was_not_streamed_has_no_ttft() -> None:
    assert ttft(_exchange(())) is None
    assert e2e(_exchange(())) == 3.0


def test_itl_is_every_gap_and_not_a_mean() -> None:
    assert itl(_exchange((10.5, 11.0, 13.0))) == (0.5, 2.0)


def test_tpot_divides_by_tokens_and_not_by_chunks() -> None:
    assert tpot(_exchange((10.0, 12.0), tokens=5)) == pytest.approx(0.5)


def test_tpot_is_unknown_without_usage_or_with_one_token() -> None:
    assert tpot(_exchange((10.0, 12.0))) is None
    assert tpot(_exchange((10.0, 12.0), tokens=1)) is None
