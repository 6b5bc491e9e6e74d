"""A wire in a process of its own, for when one core cannot read as fast as the server writes.

Only the wire moves: what to send and what an answer means stays with the one that started it, so that a run of many
processes has one plan, one judge and one record. The process ends when the socket does: it cannot outlive its run,
however that died.
"""

import asyncio
import socket
import sys
import time

import uvloop

from kvstress.client.orders import Cancel, Done, Late, Order, Settings, framed, received
from kvstress.client.wire import Wire


class _Working:
    def __init__(self, wire: Wire, writer: asyncio.StreamWriter) -> None:
        self._wire = wire
        self._writer = writer
        self._tasks: dict[int, asyncio.Task[None]] = {}

    def take(self, message: Order | Cancel) -> None:
        if isinstance(message, Order):
            self._wire.done_due = message.done_due
            self._tasks[message.number] = asyncio.get_running_loop().create_task(self._send(message))
        elif (task := self._tasks.get(message.number)) is not None:
            task.cancel()

    async def _send(self, order: Order) -> None:
        try:
            exchange = await self._wire.send(**order.asked)
            self._writer.write(framed(Done(number=order.number, exchange=exchange)))
        finally:
            del self._tasks[order.number]

    async def end(self) -> None:
        tasks = tuple(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _tell_lag(settings: Settings, writer: asyncio.StreamWriter) -> None:
    while True:
        before = time.perf_counter()
        await asyncio.sleep(settings.tick)
        late = time.perf_counter() - before - settings.tick
        if late > settings.lag:
            writer.write(framed(Late(at=time.perf_counter() - settings.origin, seconds=late)))


async def _work(end: socket.socket) -> None:
    reader, writer = await asyncio.open_connection(sock=end)
    settings = await received(reader)
    if settings is None:
        return
    origin = settings.origin
    async with Wire(**settings.wire, clock=lambda: time.perf_counter() - origin) as wire:
        working = _Working(wire, writer)
        watch = asyncio.get_running_loop().create_task(_tell_lag(settings, writer))
        while (message := await received(reader)) is not None:
            working.take(message)
        watch.cancel()
        await working.end()


if __name__ == "__main__":
    uvloop.run(_work(socket.socket(fileno=int(sys.argv[1]))))
