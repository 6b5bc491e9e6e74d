"""How fast is kvstress itself, here and now? A load generator that is the slowest part measures itself.

A stream of small events comes over a loopback socket through the same client that runs use, and a
timer says how late the event loop comes back. Both are asked several times and given with an interval. The sender
shares the loop and its time, so the figure is on the low side.
"""

import asyncio
import statistics
import time

from kvstress.client.wire import Wire, encode
from kvstress.core.diagnosis import Pace

_EVENTS, _ROUNDS, _TICKS, _TICK = 1000, 12, 60, 0.005
_CHUNK = (
    b'data: {"id":"p","object":"chat.completion.chunk","created":1,"model":"p","choices":[{"index":0,"delta":'
    b'{"content":" word"},"logprobs":null,"finish_reason":null}]}\n\n'
)
_LAST = b'data: {"id":"p","choices":[{"index":0,"delta":{},"finish_reason":"length"}]}\n\ndata: [DONE]\n\n'


async def pace() -> Pace:
    """Measure for about a second. Traffic goes to a socket of our own on 127.0.0.1."""
    lags = sorted([await _lag() for _ in range(_TICKS)])
    server = await asyncio.start_server(_answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server, Wire(f"http://127.0.0.1:{port}", clock=time.perf_counter) as wire:
        rates = [await _rate(wire, number) for number in range(_ROUNDS)]
    lower, median, upper = statistics.quantiles(rates[1:], n=4)
    return Pace(
        events_per_second=median,
        lower=lower,
        upper=upper,
        rounds=_ROUNDS - 1,
        lag_median=statistics.median(lags),
        lag_worst=lags[-1],
    )


async def _lag() -> float:
    before = time.perf_counter()
    await asyncio.sleep(_TICK)
    return max(0.0, time.perf_counter() - before - _TICK)


async def _rate(wire: Wire, number: int) -> float:
    exchange = await wire.send(f"pace.{number}", "/v1/chat/completions", encode({}), stream=True, due=0.0)
    # Reads and not events: what the kernel joined into one read cost only one.
    return len(exchange.chunk_at) / max(1e-9, exchange.ended - exchange.sent)


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """One stream per connection, in writes of one event, as a server sends them."""
    await reader.readuntil(b"\r\n\r\n")
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n")
    for _ in range(_EVENTS):
        writer.write(_CHUNK)
        # Without a turn of the loop between them, many events arrive in one read and cost next to nothing.
        await asyncio.sleep(0)
    writer.write(_LAST)
    await writer.drain()
    writer.close()
