"""Requests that we close on purpose, at the moment that was asked for."""

import asyncio
import time
from typing import Any

from kvstress.client.wire import Wire
from kvstress.core.exchange import Exchange
from kvstress.core.outcome import Kind
from tests.wire.raw_server import STREAM_HEAD, WHOLE, Act, Peer, answer, chunk, said, serving


async def cancelled(act: Act, *, after: float | None = None, chunks: int | None = None) -> Exchange:
    async with serving(act) as server, Wire(server.url, timeout=20.0, clock=time.perf_counter) as wire:
        return await wire.send(
            "r", "/v1/chat/completions", b"{}", stream=True, due=0.0, cancel_after=after, cancel_chunks=chunks
        )


async def dripping(peer: Peer) -> None:
    await peer.say(STREAM_HEAD)
    for word in range(200):
        await peer.say(chunk(said(f"{word} ")))
        await asyncio.sleep(0.02)


def test_a_request_is_cancelled_at_its_second_chunk_with_what_it_said_by_then(run: Any) -> None:
    got = run(cancelled(dripping, chunks=2))
    assert (got.kind, got.status, len(got.chunk_at)) == (Kind.CANCELLED, 200, 2)
    assert got.text.startswith("0 ")


def test_a_request_is_cancelled_after_a_time_though_nothing_came(run: Any) -> None:
    async def silent(peer: Peer) -> None:
        await asyncio.sleep(60)

    got = run(cancelled(silent, after=0.05))
    assert (got.kind, got.status, got.text) == (Kind.CANCELLED, None, "")


def test_a_request_that_ends_before_its_moment_is_not_cancelled(run: Any) -> None:
    async def whole(peer: Peer) -> None:
        await peer.say(answer(WHOLE))
        peer.writer.close()

    assert run(cancelled(whole, after=15.0, chunks=9)).kind is Kind.OK


def test_the_deadline_stays_the_deadline_where_the_cancellation_would_come_later(run: Any) -> None:
    async def lost() -> Exchange:
        async with serving(dripping) as server, Wire(server.url, timeout=0.2, clock=time.perf_counter) as wire:
            return await wire.send("r", "/v1/x", b"{}", stream=True, due=0.0, cancel_after=30.0)

    assert run(lost()).kind is Kind.DEADLINE
