"""Each way in which an exchange can end is told apart, on both event loops, by the transport that ships."""

import asyncio
import itertools
import ssl
import time
from pathlib import Path
from typing import Any

import pytest
import trustme

from kvstress.client.wire import Wire
from kvstress.core.exchange import Exchange
from kvstress.core.outcome import Kind, Outcome
from tests.wire.raw_server import DONE, LAST_CHUNK, STREAM_HEAD, WHOLE, Act, Peer, answer, chunk, event, said, serving

OK = b"HTTP/1.1 200 OK\r\n"
SHORT = OK + b"Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{"
CHUNKED = OK + b"Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"


async def exchange(act: Act, *, stream: bool = False, timeout: float = 20.0, most_bytes: int = 1 << 20) -> Exchange:
    """What the client makes of a server that does `act`."""
    async with (
        serving(act) as server,
        Wire(server.url, clock=time.perf_counter, timeout=timeout, most_bytes=most_bytes) as wire,
    ):
        got = await wire.send("s0.prime", "/v1/chat/completions", b'{"a":1}', stream=stream, due=0.0)
        assert len(server.bodies) == 1, "a request is sent once, whatever happens"
        return got


def saying(*pieces: bytes, then: str = "close") -> Act:
    """An act that says `pieces` and then closes, resets, or holds the connection."""

    async def act(peer: Peer) -> None:
        await peer.say(*pieces)
        if then == "reset":
            peer.reset()
        elif then == "hold":
            await asyncio.sleep(60)
        else:
            peer.writer.close()

    return act


BROKEN = {
    "the server closes without a word": (saying(), Kind.NO_RESPONSE),
    "only an interim response comes": (saying(b"HTTP/1.1 100 Continue\r\n\r\n"), Kind.NO_RESPONSE),
    "the server resets before a word": (saying(then="reset"), Kind.RESET),
    "the server resets in the headers": (saying(OK + b"Content-Le", then="reset"), Kind.RESET),
    "the headers are cut off": (saying(OK + b"Content-Le"), Kind.PROTOCOL),
    "the body is shorter than it was said to be": (saying(SHORT), Kind.SHORT_BODY),
    "the body is reset short of its length": (saying(SHORT, then="reset"), Kind.RESET),
    "a chunk is cut off": (saying(CHUNKED + b"10\r\n{"), Kind.TRUNCATED_CHUNK),
    "the last chunk is missing": (saying(CHUNKED + b"1\r\n{\r\n"), Kind.TRUNCATED_CHUNK),
    "a chunked body is reset": (saying(CHUNKED + b"10\r\n{", then="reset"), Kind.RESET),
    "a body delimited by its close is reset": (saying(OK + b"\r\n" + WHOLE, then="reset"), Kind.RESET),
    "a chunk size is no number": (saying(CHUNKED, b"zz\r\n{"), Kind.PROTOCOL),
    "another protocol answers": (saying(b"SSH-2.0-OpenSSH_9.2\r\n\r\n"), Kind.PROTOCOL),
    "bytes without sense answer": (saying(b"\x00\x01\x02\r\n\r\n"), Kind.PROTOCOL),
    "a header is endless": (saying(OK + b"X: " + b"a" * 300_000 + b"\r\n\r\n"), Kind.OVERSIZE_ANSWER),
    "two lengths contradict": (saying(OK + b"Content-Length: 3\r\nContent-Length: 4\r\n\r\nabc"), Kind.PROTOCOL),
    "a compressed body is none": (saying(answer(b"abc", "200 OK", "Content-Encoding: gzip")), Kind.PROTOCOL),
    "a page answers": (saying(answer(b"<html><title>Hi</title>", kind="text/html")), Kind.MALFORMED),
    "nothing answers, with a 200": (saying(answer(b"")), Kind.MALFORMED),
    "the body is no JSON": (saying(answer(b'{"choices":[NaN]}')), Kind.MALFORMED),
    "the body has no choices": (saying(answer(b'{"id":"x"}')), Kind.MALFORMED),
    "no reason to finish is given": (
        saying(answer(b'{"choices":[{"message":{"content":"x"}}]}')),
        Kind.MISSING_FINISH,
    ),
    "the answer is too large": (saying(answer(b"x" * (2 << 20))), Kind.OVERSIZE_ANSWER),
    "a redirect answers": (
        saying(answer(b"", "307 Temporary Redirect", "Location: /elsewhere")),
        Kind.UNEXPECTED_STATUS,
    ),
    "no content answers": (saying(b"HTTP/1.1 204 No Content\r\n\r\n"), Kind.UNEXPECTED_STATUS),
    "an upgrade answers": (
        saying(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n"),
        Kind.UNEXPECTED_STATUS,
    ),
}


@pytest.mark.parametrize("case", BROKEN)
def test_what_breaks_on_the_wire_is_broken_and_says_how(case: str, run: Any) -> None:
    act, kind = BROKEN[case]
    got = run(exchange(act))
    assert (got.kind, got.outcome) == (kind, Outcome.BROKEN)
    assert got.ended >= got.sent


REFUSED = {
    "a bad request": (
        answer(b'{"error":{"message":"no such field"}}', "400 Bad Request"),
        Kind.CLIENT_ERROR,
        "no such field",
    ),
    "a prompt too long for the model": (
        answer(b'{"error":{"message":"too big","type":"exceed_context_size_error"}}', "400 Bad Request"),
        Kind.TOO_LONG,
        "too big",
    ),
    "a body too large for a proxy": (
        answer(b"<html><title>413 Too Large</title></html>", "413 Payload Too Large", kind="text/html"),
        Kind.TOO_LONG,
        "413 Too Large",
    ),
    "429 with Retry-After": (
        answer(b'{"detail":"slow down"}', "429 Too Many Requests", "Retry-After: 7"),
        Kind.OVERLOADED,
        "slow down",
    ),
    "429 without it": (answer(b'{"detail":"slow down"}', "429 Too Many Requests"), Kind.CLIENT_ERROR, "slow down"),
    "503 with Retry-After": (
        answer(b'{"message":"busy"}', "503 Service Unavailable", "Retry-After: 1"),
        Kind.OVERLOADED,
        "busy",
    ),
    "503 without it": (answer(b'{"error":"dead"}', "503 Service Unavailable"), Kind.SERVER_ERROR, "dead"),
    "a 500 in plain text": (
        answer(b"Internal Server Error", "500 Oops", kind="text/plain"),
        Kind.SERVER_ERROR,
        "Internal Server Error",
    ),
    "an error with a 200": (answer(b'{"error":{"message":"cuda"}}'), Kind.ERROR_ENVELOPE, "cuda"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_an_error_that_the_server_states_keeps_its_kind_and_its_words(case: str, run: Any) -> None:
    response, kind, words = REFUSED[case]
    got = run(exchange(saying(response)))
    assert (got.kind, got.server_words) == (kind, words)
    assert got.error_bytes is not None
    assert got.retry_after == ({"429 with Retry-After": "7", "503 with Retry-After": "1"}.get(case))


def test_a_status_outlives_the_body_that_was_to_explain_it(run: Any) -> None:
    got = run(exchange(saying(b"HTTP/1.1 500 Oops\r\nContent-Length: 100\r\n\r\ndevice error 6")))
    assert (got.kind, got.server_words) == (Kind.SERVER_ERROR, "device error 6")
    assert any("cut off" in violation for violation in got.violations)


STREAMS = {
    "an error object": (chunk(event('{"error":{"message":"boom"}}')), Kind.STREAM_ERROR, "boom"),
    "an error object, then [DONE]": (chunk(event('{"error":{"message":"boom"}}') + DONE), Kind.STREAM_ERROR, "boom"),
    "an error string": (
        chunk(event('{"error": "No requests can be scheduled"}')),
        Kind.STREAM_ERROR,
        "No requests can be scheduled",
    ),
    "a field named error": (chunk(b'error: {"message":"boom"}\n\n'), Kind.STREAM_ERROR, "boom"),
    "an event named error": (chunk(b'event: error\ndata: {"message":"boom"}\n\n'), Kind.STREAM_ERROR, "boom"),
    "an error without its blank line": (chunk(b'data: {"error":{"message":"boom"}}'), Kind.STREAM_ERROR, "boom"),
    "a finish that says error": (chunk(said("", '"error"') + DONE), Kind.STREAM_ERROR, "finish_reason 'error'"),
    "a finish that says abort": (chunk(said("", '"abort"') + DONE), Kind.STREAM_ERROR, "finish_reason 'abort'"),
    "a chunk that is cut off": (chunk(b'data: {"choices": [}\n\n') + chunk(DONE), Kind.MALFORMED, None),
    "a number that is not one": (chunk(event('{"choices":[{"logprobs":NaN}]}') + DONE), Kind.MALFORMED, None),
    "nothing more": (b"", Kind.MISSING_FINISH, None),
    "only [DONE]": (chunk(DONE), Kind.MISSING_FINISH, None),
    "a finish without [DONE]": (chunk(said("", '"stop"')), Kind.MISSING_DONE, None),
}


@pytest.mark.parametrize("case", STREAMS)
def test_a_stream_that_does_not_end_as_it_must_is_broken_after_its_200(case: str, run: Any) -> None:
    rest, kind, words = STREAMS[case]
    got = run(exchange(saying(STREAM_HEAD, chunk(said("hel")), chunk(said("lo")), rest + LAST_CHUNK), stream=True))
    assert (got.kind, got.outcome, got.status) == (kind, Outcome.BROKEN, 200)
    assert (got.server_words, got.text, len(got.chunk_at)) == (words, "hello", 2)
    assert all(violation.startswith("stream: ") for violation in got.violations)


@pytest.mark.parametrize("then", ["close", "reset"])
def test_the_last_words_of_a_stream_survive_the_crash_that_comes_with_them(then: str, run: Any) -> None:
    last = chunk(event('{"error":{"message":"device error 6"}}'))
    got = run(exchange(saying(STREAM_HEAD + chunk(said("a")), last, then=then), stream=True))
    assert (got.kind, got.server_words) == (Kind.STREAM_ERROR, "device error 6")
    assert any(violation.startswith("transport: ") for violation in got.violations)


def test_words_that_come_in_one_piece_with_the_end_are_read(run: Any) -> None:
    async def act(peer: Peer) -> None:
        peer.writer.write(STREAM_HEAD + chunk(said("a")) + chunk(event('{"error":"device error 6"}')))
        peer.writer.close()

    got = run(exchange(act, stream=True))
    assert (got.kind, got.server_words, got.text) == (Kind.STREAM_ERROR, "device error 6", "a")


@pytest.mark.parametrize(("then", "kind"), [("close", Kind.TRUNCATED_CHUNK), ("reset", Kind.RESET)])
def test_a_stream_that_breaks_off_is_named_after_what_broke_it(then: str, kind: Kind, run: Any) -> None:
    got = run(exchange(saying(STREAM_HEAD, chunk(said("hello")), then=then), stream=True))
    assert (got.kind, got.text, got.status) == (kind, "hello", 200)
    assert got.violations[0].startswith("stream: ")


def test_a_healthy_stream_completes_with_one_time_for_each_read_that_carried_content(run: Any) -> None:
    pieces = (STREAM_HEAD, chunk(b": keepalive\n\n"), chunk(said("hel")), chunk(b": keepalive\n\n"), chunk(said("lo")))
    got = run(exchange(saying(*pieces, chunk(said("!", '"stop"') + DONE) + LAST_CHUNK), stream=True))
    assert (got.kind, got.text, got.violations) == (Kind.OK, "hello!", ())
    assert len(got.chunk_at) == len(got.chunk_bytes) == 3
    assert got.headers_at is not None
    assert got.sent <= got.headers_at <= got.chunk_at[0] < got.chunk_at[1] < got.chunk_at[2] <= got.ended


def test_the_clock_is_read_once_for_each_network_read(run: Any) -> None:
    """Each reading of this clock is 1 later than the last: content times then count the readings between them."""
    reads = 40

    async def act(peer: Peer) -> None:
        await peer.say(STREAM_HEAD, *(chunk(said("x")) for _ in range(reads)))
        await peer.say(chunk(said("", '"stop"') + DONE) + LAST_CHUNK)

    async def main() -> Exchange:
        ticks = itertools.count()
        async with serving(act) as server, Wire(server.url, clock=lambda: float(next(ticks))) as wire:
            return await wire.send("s0.prime", "/v1/chat/completions", b"{}", stream=True, due=0.0)

    got = run(main())
    assert len(got.chunk_at) == reads
    assert {later - earlier for earlier, later in itertools.pairwise(got.chunk_at)} == {1.0}


def test_a_large_answer_that_the_reader_falls_behind_on_comes_whole(run: Any) -> None:
    """More than aiohttp buffers: it stops reading the socket and must go on again."""
    text = "x" * 1_000
    pieces = [chunk(said(text)) for _ in range(6_000)]

    async def act(peer: Peer) -> None:
        peer.writer.write(STREAM_HEAD + b"".join(pieces))
        await peer.say(chunk(said("", '"stop"') + DONE) + LAST_CHUNK)

    got = run(exchange(act, stream=True, most_bytes=64 << 20))
    assert (got.kind, len(got.text)) == (Kind.OK, 6_000_000)


def test_a_server_that_does_not_begin_is_lost_at_the_deadline(run: Any) -> None:
    got = run(exchange(saying(then="hold"), timeout=0.3))
    assert (got.kind, got.outcome, got.status) == (Kind.DEADLINE, Outcome.LOST, None)


def test_headers_that_do_not_end_are_lost_at_the_deadline(run: Any) -> None:
    got = run(exchange(saying(OK + b"X-A: 1\r\n", then="hold"), timeout=0.3))
    assert (got.kind, got.status) == (Kind.DEADLINE, None)


def test_a_stream_that_drips_for_ever_is_lost_at_the_deadline_with_what_it_said(run: Any) -> None:
    async def act(peer: Peer) -> None:
        await peer.say(STREAM_HEAD)
        for _ in range(200):
            await peer.say(chunk(said("x")))

    got = run(exchange(act, stream=True, timeout=0.5))
    assert (got.kind, got.outcome, got.status) == (Kind.DEADLINE, Outcome.LOST, 200)
    assert len(got.text) == len(got.chunk_at) > 0


def test_a_stream_that_stays_open_after_its_done_is_complete_and_noted(run: Any) -> None:
    got = run(exchange(saying(STREAM_HEAD, chunk(said("x", '"stop"') + DONE), then="hold"), stream=True))
    assert (got.kind, got.text) == (Kind.OK, "x")
    assert got.violations == ("stream: the response did not end after [DONE]: deadline",)
    assert got.ended == got.chunk_at[-1]


def test_a_stream_without_end_is_cut_at_the_most_bytes(run: Any) -> None:
    async def act(peer: Peer) -> None:
        await peer.say(STREAM_HEAD)
        for _ in range(100):
            peer.writer.write(chunk(said("x" * 10_000)))
            await peer.writer.drain()

    got = run(exchange(act, stream=True, most_bytes=200_000))
    assert (got.kind, got.outcome) == (Kind.OVERSIZE_ANSWER, Outcome.BROKEN)
    assert got.body_bytes <= 200_000 + (1 << 19)


def test_a_line_without_end_is_cut_at_the_longest_line(run: Any) -> None:
    async def act(peer: Peer) -> None:
        await peer.say(STREAM_HEAD)
        for _ in range(20):
            peer.writer.write(chunk(b"x" * (1 << 20)))
            await peer.writer.drain()
        await peer.say(LAST_CHUNK)

    got = run(exchange(act, stream=True, most_bytes=64 << 20))
    assert got.kind is Kind.OVERSIZE_ANSWER


def test_a_port_where_nobody_listens_refuses(run: Any) -> None:
    async def main() -> Exchange:
        async with serving(saying()) as server:
            url = server.url
        async with Wire(url, clock=time.perf_counter) as wire:
            return await wire.send("a", "/v1/chat/completions", b"{}", stream=True, due=0.0)

    got = run(main())
    assert (got.kind, got.outcome, got.status) == (Kind.CONNECTION_REFUSED, Outcome.BROKEN, None)


def test_a_name_that_nobody_has_cannot_be_connected_to(run: Any) -> None:
    async def main() -> Exchange:
        async with Wire("http://nobody.invalid:80", clock=time.perf_counter) as wire:
            return await wire.send("a", "/v1/chat/completions", b"{}", stream=True, due=0.0)

    got = run(main())
    assert got.kind is Kind.CONNECT_FAILED
    assert got.violations[0].startswith("transport: ")


async def _over_tls(tmp_path: Path, name: str, *, trust: bool, greeting: bytes = b"") -> Exchange:
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(name).configure_cert(context)
    ca_file = tmp_path / "ca.pem"
    (authority if trust else trustme.CA()).cert_pem.write_to_path(ca_file)
    async with (
        serving(saying(answer(WHOLE), then="hold"), tls=None if greeting else context, greeting=greeting) as server,
        Wire(f"https://127.0.0.1:{server.port}", ca_file=ca_file, clock=time.perf_counter) as wire,
    ):
        return await wire.send("a", "/v1/chat/completions", b"{}", stream=False, due=0.0)


def test_a_certificate_of_a_named_authority_is_accepted(tmp_path: Path, run: Any) -> None:
    assert run(_over_tls(tmp_path, "127.0.0.1", trust=True)).kind is Kind.OK


def test_a_certificate_of_another_authority_is_a_tls_failure(tmp_path: Path, run: Any) -> None:
    got = run(_over_tls(tmp_path, "127.0.0.1", trust=False))
    assert got.kind is Kind.TLS
    assert "certificate" in got.violations[0]


def test_a_certificate_for_another_name_is_a_tls_failure(tmp_path: Path, run: Any) -> None:
    assert run(_over_tls(tmp_path, "elsewhere.example", trust=True)).kind is Kind.TLS


def test_plain_http_where_tls_was_expected_is_a_tls_failure(tmp_path: Path, run: Any) -> None:
    greeting = answer(b"speak HTTP", "400 Bad Request")
    assert run(_over_tls(tmp_path, "127.0.0.1", trust=True, greeting=greeting)).kind is Kind.TLS
