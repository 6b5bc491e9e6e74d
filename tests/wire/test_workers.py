"""Several processes that send and read are one client to the run; that one of them dies says nothing about a server."""

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
import uvloop

from kvstress.client.wire import Wire
from kvstress.client.workers import Workers, working
from kvstress.core.errors import CannotJudgeError
from kvstress.core.exchange import Exchange
from kvstress.core.outcome import Kind
from tests.wire.raw_server import DONE, LAST_CHUNK, STREAM_HEAD, Act, Peer, Server, chunk, said, serving

PATH = "/v1/chat/completions"


def nobody(at: float, seconds: float) -> None:
    """Is told of lag and does not mind."""


@asynccontextmanager
async def crew(
    act: Act,
    *,
    done_due: bool = True,
    late: Callable[[float, float], None] = nobody,
    lag: float = 60.0,
) -> AsyncIterator[tuple[Server, Workers]]:
    """Two processes, and the server that they talk to."""
    wire = {"headers": {"X-Key": "k"}}
    async with (
        serving(act) as server,
        working(
            2,
            wire | {"base_url": server.url},
            clock=time.perf_counter,
            done_due=lambda: done_due,
            tick=0.01,
            lag=lag,
            late=late,
        ) as workers,
    ):
        yield server, workers


async def ask(workers: Workers | Wire, **more: Any) -> Exchange:
    return await workers.send("s0.ask", PATH, b"{}", stream=True, due=0.0, **more)


async def streaming(peer: Peer) -> None:
    await peer.say(STREAM_HEAD, chunk(said("one ")), chunk(said("two", '"stop"')), chunk(DONE), LAST_CHUNK)


async def without_done(peer: Peer) -> None:
    await peer.say(STREAM_HEAD, chunk(said("one ", '"stop"')), LAST_CHUNK)


def timeless(exchange: Exchange) -> Exchange:
    return replace(exchange, sent=0.0, headers_at=0.0, ended=0.0, chunk_at=(), chunk_bytes=())


def test_an_exchange_of_a_worker_is_what_one_wire_would_have_recorded() -> None:
    async def main() -> None:
        async with crew(streaming) as (server, workers):
            before = time.perf_counter()
            got = await ask(workers)
            after = time.perf_counter()
            async with Wire(server.url, clock=time.perf_counter) as wire:
                assert timeless(got) == timeless(await ask(wire))
            assert b"x-key: k\r\n" in server.heads[0].lower()
        assert (got.kind, got.text) == (Kind.OK, "one two")
        # Both processes read one clock, so that their times can stand in one record.
        assert before <= got.sent <= got.chunk_at[0] <= got.chunk_at[-1] <= got.ended <= after

    uvloop.run(main())


@pytest.mark.parametrize(("done_due", "kind"), [(True, Kind.MISSING_DONE), (False, Kind.OK)])
def test_every_worker_knows_whether_this_server_ever_sends_done(done_due: bool, kind: Kind) -> None:
    async def main() -> Exchange:
        async with crew(without_done, done_due=done_due) as (_, workers):
            return await ask(workers)

    assert uvloop.run(main()).kind is kind


def test_a_request_that_nobody_waits_for_any_more_is_closed_by_its_worker() -> None:
    async def main() -> None:
        came, closed = asyncio.Event(), asyncio.Event()

        async def watching(peer: Peer) -> None:
            came.set()
            await peer.say(STREAM_HEAD, chunk(said("one ")))
            if await peer.reader.read(1) == b"":
                closed.set()

        async with crew(watching) as (_, workers):
            asking = asyncio.create_task(ask(workers))
            await came.wait()
            asking.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asking
            await closed.wait()

    uvloop.run(main())


def test_a_worker_that_stands_still_says_so_on_the_clock_of_the_run() -> None:
    async def main() -> None:
        told: asyncio.Queue[tuple[float, float]] = asyncio.Queue()
        # Its sleep of 10 ms is always late by more than nothing.
        async with crew(streaming, late=lambda at, seconds: told.put_nowait((at, seconds)), lag=0.0):
            at, seconds = await told.get()
        assert 0.0 < seconds < at <= time.perf_counter()

    uvloop.run(main())


def test_a_worker_that_dies_takes_its_own_requests_along_and_no_verdict_comes_of_it() -> None:
    async def main() -> None:
        both, came = asyncio.Event(), 0

        async def waiting(peer: Peer) -> None:
            nonlocal came
            came += 1
            if came == 2:
                both.set()
            await asyncio.sleep(60)

        async with crew(waiting) as (_, workers):
            asking = [asyncio.create_task(ask(workers)) for _ in range(2)]
            await both.wait()
            os.kill(workers.processes[0], signal.SIGKILL)
            over, open_still = await asyncio.wait(asking, return_when=asyncio.FIRST_COMPLETED)
            assert (len(over), len(open_still)) == (1, 1)
            with pytest.raises(CannotJudgeError, match="worker process"):
                over.pop().result()
            os.kill(workers.processes[1], signal.SIGKILL)
            with pytest.raises(CannotJudgeError, match="worker process"):
                await open_still.pop()
            with pytest.raises(CannotJudgeError, match="worker process"):
                await ask(workers)

    uvloop.run(main())
