"""Connections that are used again, and peers that leave them without a word."""

import asyncio
import threading
import time
from typing import Any

import pytest

from kvstress.client.transport import Transport
from kvstress.client.wire import Wire
from kvstress.core.exchange import Exchange
from kvstress.core.outcome import Kind
from tests.wire.raw_server import DONE, LAST_CHUNK, STREAM_HEAD, WHOLE, Peer, answer, chunk, said, serving
from tests.wire.test_requests import PATH, agreeable, post, to


class _Leaving:
    """Keep-alive server in its own thread that answers once per connection and then hangs up without having said so."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.left = threading.Event()
        self._thread = threading.Thread(target=self._serve)
        self._ready = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self.url = ""

    def _serve(self) -> None:
        async def act(peer: Peer) -> None:
            self.bodies.append(peer.body)
            await peer.say(answer(WHOLE))
            peer.writer.close()
            await peer.writer.wait_closed()
            self.left.set()

        async def main() -> None:
            async with serving(act) as server:
                self.url = server.url
                self._ready.set()
                await self._stop.wait()

        self._loop.run_until_complete(main())
        self._loop.close()

    def __enter__(self) -> "_Leaving":
        self._thread.start()
        assert self._ready.wait(10)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(10)


async def _twice(server: _Leaving, wire: Wire) -> Exchange:
    """Two requests with the server's farewell between them, which this event loop gets no turn to see."""
    assert (await post(wire, b'{"n":1}')).kind is Kind.OK
    assert server.left.wait(10)  # blocks this loop on purpose
    time.sleep(0.05)  # noqa: ASYNC251
    return await post(wire, b'{"n":2}')


def test_an_idle_connection_that_the_server_left_is_not_used(run: Any) -> None:
    with _Leaving() as server:

        async def main() -> Exchange:
            async with Wire(server.url, clock=time.perf_counter) as wire:
                return await _twice(server, wire)

        got = run(main())
    assert (got.kind, got.violations) == (Kind.OK, ())
    assert server.bodies == [b'{"n":1}', b'{"n":2}']


def test_a_request_that_crosses_the_farewell_leaves_once_more_and_says_so(run: Any) -> None:
    with _Leaving() as server:

        async def main() -> Exchange:
            async with Wire(server.url, clock=time.perf_counter) as wire:
                # A transport that does not look before it sends: the race, made certain.
                wire._client._transport = Transport(
                    clock=time.perf_counter, verify=None, is_stale=lambda transport: transport is None, looks=0
                )
                return await _twice(server, wire)

        got = run(main())
    assert got.kind is Kind.OK
    assert "sent on a new one" in got.violations[0]
    assert server.bodies == [b'{"n":1}', b'{"n":2}'], "the server read each request once"


@pytest.mark.parametrize("stream", [True, False])
def test_a_server_that_hangs_up_a_moment_after_its_answer_is_not_called_broken_for_it(run: Any, stream: bool) -> None:
    """Real llama.cpp does so after each stream, having promised to keep the connection."""

    async def act(peer: Peer) -> None:
        streamed = STREAM_HEAD + chunk(said("a", '"stop"') + DONE) + LAST_CHUNK
        # `say` waits 20 ms after its last piece; the next request is wanted by then.
        await peer.say(streamed if stream else answer(WHOLE))
        peer.writer.close()

    async def main() -> list[Exchange]:
        async with serving(act) as server, to(server) as wire:
            return [await post(wire, stream=stream) for _ in range(3)]

    assert [(got.kind, got.violations) for got in run(main())] == [(Kind.OK, ())] * 3


def test_a_request_that_is_given_up_while_the_server_may_still_leave_leaves_no_connection_open(run: Any) -> None:
    async def main() -> tuple[Exchange, Exchange]:
        async with serving(agreeable) as server, to(server) as wire:
            await post(wire)
            cut = await wire.send("s0.warm", PATH, b"{}", stream=False, due=0.0, cancel_after=0.01)
            return cut, await post(wire)

    cut, after = run(main())
    assert (cut.kind, cut.status, after.kind) == (Kind.CANCELLED, None, Kind.OK)


def test_a_server_that_keeps_its_connections_is_waited_for_once(run: Any) -> None:
    async def act(peer: Peer) -> None:
        await peer.say(answer(WHOLE))

    async def main() -> int:
        async with serving(act) as server, to(server) as wire:
            for _ in range(4):
                await post(wire)
            return server.connections

    assert run(main()) == 1


def test_a_server_that_dies_of_a_request_on_a_kept_connection_is_not_asked_again(run: Any) -> None:
    async def act(peer: Peer) -> None:
        if len(peer.server.bodies) == 1:
            await peer.say(answer(WHOLE))
        else:
            peer.writer.close()

    async def main() -> Exchange:
        async with serving(act) as server, to(server) as wire:
            await post(wire)
            got = await post(wire, b'{"poison":1}')
            assert server.bodies == [b"{}", b'{"poison":1}']
            assert server.connections == 1
            return got

    assert run(main()).kind is Kind.NO_RESPONSE


def test_a_connection_that_carried_an_error_is_not_used_again(run: Any) -> None:
    """A server whose handler crashed hangs up right after its 500: the next request must not be called reset for it."""

    async def act(peer: Peer) -> None:
        failing = len(peer.server.bodies) == 1
        await peer.say(answer(b'{"error":"boom"}', "500 Internal Server Error") if failing else answer(WHOLE))

    async def main() -> None:
        async with serving(act) as server, to(server) as wire:
            assert (await post(wire)).kind is Kind.SERVER_ERROR
            assert (await post(wire)).kind is Kind.OK
            assert server.connections == 2

    run(main())


def test_a_stream_without_done_is_whole_only_where_it_never_comes(run: Any) -> None:
    async def act(peer: Peer) -> None:
        body = said("hi") + said("", '"stop"')
        await peer.say(answer(body, kind="text/event-stream"))

    async def main() -> list[Kind]:
        async with serving(act) as server, to(server) as wire:
            kinds = [(await wire.send("r", "/v1/chat/completions", b"{}", stream=True, due=0.0)).kind]
            wire.done_due = False
            return [*kinds, (await wire.send("r", "/v1/chat/completions", b"{}", stream=True, due=0.0)).kind]

    assert run(main()) == [Kind.MISSING_DONE, Kind.OK]
