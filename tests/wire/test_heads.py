"""What an answer's head may hold: where it redirects to, how its body is encoded, and lines of any length."""

import gzip
import time
from typing import Any

import pytest

from kvstress.client.transport import LONGEST_FIELD
from kvstress.client.wire import Wire
from kvstress.core.exchange import Exchange
from kvstress.core.outcome import Kind
from tests.wire.raw_server import WHOLE, Peer, answer, serving


def _asked(run: Any, said: bytes, *, stream: bool = False, headers: dict[str, str] | None = None) -> Exchange:
    async def act(peer: Peer) -> None:
        await peer.say(said)

    async def main() -> Exchange:
        async with (
            serving(act) as server,
            Wire(server.url, clock=time.perf_counter, headers=headers or {}) as wire,
        ):
            got = await wire.send("s0.prime", "/v1/chat/completions", b"{}", stream=stream, due=0.0)
            assert len(server.heads) == 1
            return got

    got: Exchange = run(main())
    return got


@pytest.mark.parametrize(
    ("location", "shown"),
    [
        ("/elsewhere", "/elsewhere"),
        ("https://me:secret@host:1/v1//a@b?key=secret#secret", "https://host:1/v1//a@b"),
        ("http://[not-a-url", "http://[not-a-url"),
        ("\x1b[31mred", "\x1b[31mred"),
        ("/" + "a" * 5000, "/" + "a" * 299 + "… [4,701 more characters]"),
    ],
)
def test_a_redirect_is_not_followed_and_says_where_it_points(run: Any, location: str, shown: str) -> None:
    got = _asked(run, answer(b"", "302 Found", f"Location: {location}"))
    assert (got.status, got.kind, got.server_words) == (302, Kind.UNEXPECTED_STATUS, f"Location: {shown}")


def test_a_page_that_is_elsewhere_says_where(run: Any) -> None:
    async def act(peer: Peer) -> None:
        await peer.say(answer(b"", "307 Temporary Redirect", "Location: /other"))

    async def main() -> None:
        async with serving(act) as server, Wire(server.url, clock=time.perf_counter) as wire:
            page = await wire.fetch("/metrics")
            assert (page.status, page.text, len(server.heads)) == (307, "Location: /other", 1)

    run(main())


def test_a_location_that_is_no_redirect_says_nothing(run: Any) -> None:
    assert _asked(run, answer(WHOLE, "200 OK", "Location: /made")).server_words is None


@pytest.mark.parametrize("length", [9_000, 60_000])
def test_a_long_line_in_either_head_is_no_fault(run: Any, length: int) -> None:
    got = _asked(run, answer(WHOLE, "200 OK", "X-Long: " + "a" * length), headers={"X-Long": "b" * length})
    assert got.kind is Kind.OK


def test_a_line_longer_than_is_read_says_so_without_its_text(run: Any) -> None:
    got = _asked(run, answer(WHOLE, "200 OK", "X-Long: " + "a" * (LONGEST_FIELD + 1)))
    assert got.kind is Kind.OVERSIZE_ANSWER
    assert got.violations == ("transport: a line of the answer's head is longer than kvstress reads",)


def test_a_body_that_is_encoded_unasked_is_read(run: Any) -> None:
    assert _asked(run, answer(gzip.compress(WHOLE), "200 OK", "Content-Encoding: gzip")).kind is Kind.OK


@pytest.mark.parametrize("stream", [True, False])
def test_a_body_that_is_not_encoded_as_it_says_was_not_cut_off(run: Any, stream: bool) -> None:
    kind = "text/event-stream" if stream else "application/json"
    got = _asked(run, answer(WHOLE, "200 OK", "Content-Encoding: gzip", kind=kind), stream=stream)
    assert got.kind is Kind.PROTOCOL
    cannot, why = got.violations
    assert cannot.endswith("cannot be read to its end")
    assert "the body is not encoded as its Content-Encoding says (" in why
