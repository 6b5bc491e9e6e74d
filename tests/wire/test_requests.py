"""What leaves the client, on which connection, and how often."""

import asyncio
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kvstress.client.wire import Fetched, Wire, encode
from kvstress.core.errors import UsageError
from kvstress.core.exchange import Exchange
from kvstress.core.outcome import Kind
from tests.wire.raw_server import WHOLE, Peer, Server, answer, serving

PATH = "/v1/chat/completions"


async def agreeable(peer: Peer) -> None:
    """Answers well and keeps the connection open."""
    await peer.say(answer(WHOLE))


def to(server: Server, path: str = "", **options: Any) -> Wire:
    return Wire(server.url + path, clock=time.perf_counter, **options)


async def post(wire: Wire, body: bytes = b"{}", *, stream: bool = False) -> Exchange:
    return await wire.send("s0.prime", PATH, body, stream=stream, due=0.0)


@pytest.mark.parametrize("size", [0, 128 << 10, 3 << 20])
def test_a_prompt_of_any_size_is_sent_whole_with_its_length(size: int, run: Any) -> None:
    body = encode({"model": "m", "messages": [{"role": "user", "content": "x" * size}]})

    async def main() -> None:
        async with serving(agreeable) as server, to(server) as wire:
            assert (await post(wire, body)).kind is Kind.OK
            assert server.bodies == [body]
            head = server.heads[0].lower()
            assert f"content-length: {len(body)}\r\n".encode() in head
            assert b"content-type: application/json\r\n" in head
            assert b"transfer-encoding" not in head

    run(main())


def test_equal_bodies_are_equal_bytes_in_the_order_given() -> None:
    assert encode({"b": 1, "a": "é"}) == '{"b":1,"a":"é"}'.encode()
    assert msgspec.json.decode(encode({"b": 1})) == {"b": 1}


@pytest.mark.parametrize("path", ["", "/", "/v1", "/v1/"])
def test_a_base_url_may_end_in_v1_or_not(path: str, run: Any) -> None:
    async def main() -> None:
        async with serving(agreeable) as server, to(server, path) as wire:
            await post(wire)
            await wire.fetch("/metrics")
            assert [head.split()[1] for head in server.heads] == [PATH.encode(), b"/metrics"]
            assert wire.shown_url == server.url + path.rstrip("/")

    run(main())


def test_a_prefix_in_front_of_v1_stays(run: Any) -> None:
    async def main() -> None:
        async with serving(agreeable) as server, to(server, "/team/a/v1") as wire:
            await post(wire)
            assert server.heads[0].startswith(b"POST /team/a/v1/chat/completions HTTP/1.1\r\n")

    run(main())


def test_the_sixth_version_of_ip_is_spoken(run: Any) -> None:
    async def main() -> None:
        async with (
            serving(agreeable, host="::1") as server,
            Wire(f"http://[::1]:{server.port}", clock=time.perf_counter) as wire,
        ):
            assert (await post(wire)).kind is Kind.OK

    run(main())


def test_one_connection_serves_requests_that_follow_one_another(run: Any) -> None:
    async def main() -> None:
        async with serving(agreeable) as server, to(server) as wire:
            for _ in range(5):
                assert (await post(wire)).kind is Kind.OK
            assert server.connections == 1

    run(main())


def test_all_requests_that_are_sent_at_once_are_under_way_at_once(run: Any) -> None:
    """No limit on connections: the server answers only when it holds all of them."""
    together = 150
    full = asyncio.Event()

    async def act(peer: Peer) -> None:
        if len(peer.server.bodies) == together:
            full.set()
        await full.wait()
        await peer.say(answer(WHOLE))

    async def main() -> None:
        async with serving(act) as server, to(server, timeout=60) as wire:
            got = await asyncio.gather(*(post(wire) for _ in range(together)))
            assert {one.kind for one in got} == {Kind.OK}

    run(main())


def test_a_cookie_is_not_kept(run: Any) -> None:
    async def act(peer: Peer) -> None:
        await peer.say(answer(WHOLE, "200 OK", "Set-Cookie: worker=3; Path=/"))

    async def main() -> None:
        async with serving(act) as server, to(server) as wire:
            await post(wire)
            await post(wire)
            assert b"cookie" not in server.heads[1].lower()

    run(main())


def test_a_page_is_asked_for_once_even_when_the_server_drops_the_connection(run: Any) -> None:
    async def act(peer: Peer) -> None:
        peer.writer.close()

    async def main() -> Fetched:
        async with serving(act) as server, to(server) as wire:
            page = await wire.fetch("/health")
            assert len(server.heads) == 1
            return page

    page = run(main())
    assert (page.status, page.problem) == (None, "no response: Server disconnected")


def test_the_environment_decides_on_a_proxy_only_when_asked(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        async with serving(agreeable) as proxy, serving(agreeable) as server:
            monkeypatch.setenv("http_proxy", proxy.url)
            monkeypatch.delenv("no_proxy", raising=False)
            async with to(server) as wire:
                await post(wire)
            assert (len(proxy.heads), len(server.heads)) == (0, 1)
            async with to(server, trust_env=True) as wire:
                await post(wire)
            assert (len(proxy.heads), len(server.heads)) == (1, 1)

    run(main())


async def echo_key(peer: Peer) -> None:
    """A server that repeats the credentials it was given in its error."""
    line = next(line for line in peer.head.split(b"\r\n") if line.lower().startswith(b"authorization"))
    await peer.say(answer(b'{"error":{"message":"bad key: ' + line.split(b" ", 1)[1] + b'"}}', "401 Unauthorized"))


def test_a_key_reaches_the_server_and_nothing_that_is_shown(run: Any) -> None:
    async def main() -> None:
        async with serving(echo_key) as server, to(server, headers={"Authorization": "Bearer sk-secret-1"}) as wire:
            got = await post(wire)
            assert b"sk-secret-1" in server.heads[0]
            assert got.server_words == "bad key: <hidden>"
            assert "sk-secret-1" not in f"{got!r} {wire!r} {wire.shown_url}"

    run(main())


def test_a_password_in_the_url_becomes_a_header_and_is_shown_nowhere(run: Any) -> None:
    async def main() -> None:
        async with serving(echo_key) as server:
            async with Wire(f"http://me:pass%20word@127.0.0.1:{server.port}/v1", clock=time.perf_counter) as wire:
                got = await post(wire)
            assert b"Basic bWU6cGFzcyB3b3Jk" in server.heads[0]  # base64 of "me:pass word"
            assert wire.shown_url == f"{server.url}/v1"
            assert not any(secret in f"{got!r} {wire!r}" for secret in ("bWU6", "pass%20word", "pass word"))

    run(main())


@pytest.mark.parametrize(
    "url", ["localhost:8000", "ftp://host", "http://", "", "http://h:99999999", "http://h/?a=1", "http://u:hunter2@"]
)
def test_a_url_that_cannot_be_used_is_a_usage_error_that_repeats_no_password(url: str) -> None:
    with pytest.raises(UsageError) as caught:
        Wire(url, clock=time.perf_counter)
    assert "URL" in str(caught.value)
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("headers", [{"a b": "x"}, {"": "x"}, {"X-Key": "sk-1\r\nHost: evil"}, {"X-Key": "sk-1é"}])
def test_a_header_that_cannot_be_sent_is_a_usage_error_that_repeats_no_value(headers: dict[str, str]) -> None:
    with pytest.raises(UsageError) as caught:
        Wire("http://127.0.0.1:1", headers=headers, clock=time.perf_counter)
    assert "sk-1" not in str(caught.value)


def test_a_missing_ca_file_is_a_usage_error_that_names_it(tmp_path: Path) -> None:
    empty = tmp_path / "empty.pem"
    empty.write_text("")
    for path in (tmp_path / "none.pem", empty):
        with pytest.raises(UsageError, match=path.name):
            Wire("https://127.0.0.1:1", ca_file=path, clock=time.perf_counter)


def test_a_page_comes_with_its_status_text_and_type(run: Any) -> None:
    async def act(peer: Peer) -> None:
        await peer.say(answer("# metrics é\n".encode(), "503 Busy", kind="text/plain"))

    async def main() -> Fetched:
        async with serving(act) as server, to(server) as wire:
            return await wire.fetch("/metrics")

    page = run(main())
    assert page == Fetched(status=503, text="# metrics é\n", content_type="text/plain", problem=None)


def test_a_page_that_does_not_come_is_a_problem_in_words(run: Any) -> None:
    async def act(peer: Peer) -> None:
        await asyncio.sleep(60)

    async def main() -> tuple[Fetched, Fetched]:
        async with serving(act) as server, to(server) as wire:
            slow = await wire.fetch("/metrics", timeout=0.2)
        async with to(server) as wire:
            return slow, await wire.fetch("/metrics")

    slow, refused = run(main())
    assert (slow.status, slow.problem) == (None, "no answer within 0.2 s")
    assert refused.problem is not None
    assert refused.problem.startswith("connection refused: ")


def test_a_cancellation_by_the_caller_passes_through_and_closes_the_connection(run: Any) -> None:
    asked, gone = asyncio.Event(), asyncio.Event()

    async def act(peer: Peer) -> None:
        asked.set()
        assert await peer.reader.read() == b""
        gone.set()

    async def main() -> None:
        async with serving(act) as server, to(server) as wire:
            sending = asyncio.ensure_future(post(wire))
            await asyncio.wait_for(asked.wait(), 10)
            sending.cancel()
            with pytest.raises(asyncio.CancelledError):
                await sending
            await asyncio.wait_for(gone.wait(), 10)

    run(main())
