"""Decoding server-sent events does not depend on where the network cuts them, nor on how lines end."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvstress.client.sse import BOM, Decoder, Event, LineTooLongError, Named


def decode(*pieces: bytes, longest: int = 1 << 20) -> list[Event]:
    """All events of a stream that came in `pieces`."""
    decoder = Decoder(longest)
    events = [event for piece in pieces for event in decoder.feed(piece)]
    return events + decoder.end()


def cut(stream: bytes, places: list[int]) -> list[bytes]:
    """`stream` in pieces, cut at `places` (taken modulo its length); some pieces may be empty."""
    edges = [0, *sorted(place % (len(stream) + 1) for place in places), len(stream)]
    return [stream[start:end] for start, end in pairwise(edges)]


LINES = st.sampled_from(
    [
        *(b"data: a", b"data:b", b"data:  c", b"data", b'data: {"x": "\xc3\xa9"}', b"data: [DONE] "),
        *(b"event: error", b"event: tick", b"error: boom", b"error:x", b": keepalive", b":"),
        *(b"id: 7", b"retry: 10", b"nonsense", b"", b"", b""),
    ]
)
ENDS = st.sampled_from([b"\n", b"\r\n", b"\r"])
STREAMS = st.builds(
    lambda start, lines, tail: start + b"".join(line + end for line, end in lines) + tail,
    st.sampled_from([b"", BOM]),
    st.lists(st.tuples(LINES, ENDS), max_size=30),
    st.sampled_from([b"", b"data: tail", b"da", b"data: tail\r"]),
)


@given(STREAMS, st.lists(st.integers(min_value=0), max_size=40))
def test_events_do_not_depend_on_where_bytes_are_cut(stream: bytes, places: list[int]) -> None:
    assert decode(*cut(stream, places)) == decode(stream)


@given(st.binary(max_size=300), st.lists(st.integers(min_value=0), max_size=20))
def test_any_bytes_at_all_are_decoded_alike_however_cut(stream: bytes, places: list[int]) -> None:
    assert decode(*cut(stream, places)) == decode(stream)


@given(STREAMS)
def test_bytes_one_by_one_give_the_same_events(stream: bytes) -> None:
    assert decode(*(bytes([byte]) for byte in stream)) == decode(stream)


@given(st.lists(LINES, max_size=30), st.sampled_from([b"\r\n", b"\r"]))
def test_lines_may_end_in_any_of_three_ways(lines: list[bytes], end: bytes) -> None:
    assert decode(b"".join(line + end for line in lines)) == decode(b"".join(line + b"\n" for line in lines))


@given(STREAMS, st.lists(st.integers(min_value=0), max_size=10), st.integers(1, 40))
def test_whether_a_line_is_too_long_does_not_depend_on_the_cuts(stream: bytes, places: list[int], longest: int) -> None:
    assert _is_too_long([stream], longest) == _is_too_long(cut(stream, places), longest)


def _is_too_long(pieces: list[bytes], longest: int) -> bool:
    try:
        decode(*pieces, longest=longest)
    except LineTooLongError:
        return True
    return False


@pytest.mark.parametrize(
    ("stream", "events"),
    [
        (b"data: a\n\n", [b"a"]),
        (b"data:a\n\n", [b"a"]),
        (b"data:  a \n\n", [b" a "]),
        (b"data: a\ndata: b\n\n", [b"a\nb"]),
        (b"data: a\n\ndata: b\n\n", [b"a", b"b"]),
        (b": keepalive\n\n: keepalive\n\n", []),
        (b"data: a\n: in between\ndata: b\n\n", [b"a\nb"]),
        (BOM + b"data: a\n\n", [b"a"]),
        (b"data: a\n\n" + BOM + b"data: b\n\n", [b"a"]),
        (b"event: error\ndata: x\n\ndata: y\n\n", [Named("error", b"x"), b"y"]),
        (b"event: error\n\ndata: y\n\n", [b"y"]),
        (b"error: x\n\n", [Named("error", b"x")]),
        (b"data: [DONE]", [b"[DONE]"]),
        (b"data: [DONE]\r", [b"[DONE]"]),
        (b"data: [DONE]\r\n", [b"[DONE]"]),
        (b"data: [DONE] \n\n", [b"[DONE] "]),
        (b"data\n\n", [b""]),
        (b"\n\n\n", []),
        (b"", []),
    ],
)
def test_the_shapes_that_servers_send(stream: bytes, events: list[Event]) -> None:
    assert decode(stream) == events


def test_a_line_or_an_event_longer_than_the_decoder_may_hold_is_refused() -> None:
    for stream in (b"data: " + b"x" * 50, b"data: " + b"x" * 50 + b"\n\n", b"data: aaaa\n" * 20):
        with pytest.raises(LineTooLongError):
            decode(stream, longest=30)


def test_many_short_data_lines_cost_no_more_than_their_bytes() -> None:
    lines = 200_000
    assert decode(b"data:\n" * lines + b"\n") == [b"\n" * (lines - 1)]


def test_a_read_of_one_event_and_the_first_byte_of_the_next_keeps_that_byte() -> None:
    decoder = Decoder()
    assert decoder.feed(b"data: one\nd") == []
    assert decoder.feed(b"ata: two\n\n") == [b"one\ntwo"]
