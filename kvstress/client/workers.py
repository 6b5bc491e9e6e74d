"""Several wires, each in a process of its own, that are used like one.

A request goes to the process with the fewest under way. The order in which exchanges come back is that of their ends,
as with one wire. A process that dies takes its requests with it, and nobody knows what became of them: that
ends the run as something that could not be judged, and never as a verdict about the server.
"""

import asyncio
import contextlib
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from kvstress.client.orders import Cancel, Done, Late, Order, Settings, framed, received
from kvstress.core.errors import CannotJudgeError
from kvstress.core.exchange import Exchange

Clock = Callable[[], float]
TellLag = Callable[[float, float], None]

_DIED = "a worker process of kvstress ended in mid-run: look at what it printed, or run with fewer --workers"


class _Worker:
    """One process, as its starter sees it."""

    def __init__(self, process: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, late: TellLag) -> None:
        self.process = process
        self._reader = reader
        self._writer = writer
        self._late = late
        self._waiting: dict[int, asyncio.Future[Exchange]] = {}
        self._orders = 0
        self._over: BaseException | None = None

    @property
    def under_way(self) -> int:
        return len(self._waiting)

    async def send(self, asked: dict[str, Any], done_due: bool) -> Exchange:
        if self._over is not None:
            raise self._over
        number = self._orders = self._orders + 1
        answer: asyncio.Future[Exchange] = asyncio.get_running_loop().create_future()
        self._waiting[number] = answer
        self._writer.write(framed(Order(number=number, asked=asked, done_due=done_due)))
        try:
            return await answer
        except asyncio.CancelledError:
            self._writer.write(framed(Cancel(number=number)))
            raise
        finally:
            self._waiting.pop(number, None)

    async def listen(self) -> None:
        """Take in what the process says, until it says no more."""
        try:
            while (message := await received(self._reader)) is not None:
                self._take(message)
            self._fail(CannotJudgeError(_DIED))
        except CannotJudgeError as problem:  # the disk takes no more
            self._fail(problem)

    def _take(self, message: Done | Late) -> None:
        if isinstance(message, Late):
            self._late(message.at, message.seconds)
        elif (answer := self._waiting.get(message.number)) is not None and not answer.done():
            answer.set_result(message.exchange)

    def _fail(self, problem: BaseException) -> None:
        self._over = problem
        for answer in self._waiting.values():
            if not answer.done():
                answer.set_exception(problem)


class Workers:
    """Use `send` like a wire's; `done_due` is asked for with every request."""

    def __init__(self, workers: list[_Worker], done_due: Callable[[], bool]) -> None:
        self._workers = workers
        self._done_due = done_due

    @property
    def processes(self) -> tuple[int, ...]:
        """Their process ids."""
        return tuple(worker.process for worker in self._workers)

    async def send(
        self,
        request_id: str,
        endpoint: str,
        body: bytes,
        *,
        stream: bool,
        due: float,
        cancel_after: float | None = None,
        cancel_chunks: int | None = None,
    ) -> Exchange:
        """As `Wire.send`. Raises CannotJudgeError when the process that carries the request dies."""
        asked = {
            "request_id": request_id,
            "endpoint": endpoint,
            "body": body,
            "stream": stream,
            "due": due,
            "cancel_after": cancel_after,
            "cancel_chunks": cancel_chunks,
        }
        idlest = min(self._workers, key=lambda worker: worker.under_way)
        return await idlest.send(asked, self._done_due())


@asynccontextmanager
async def working(
    count: int,
    wire: dict[str, Any],
    *,
    clock: Clock,
    done_due: Callable[[], bool],
    tick: float,
    lag: float,
    late: TellLag,
) -> AsyncIterator[Workers]:
    """`count` processes with a wire each, made of the arguments `wire`; they end with the block.

    `late(at, seconds)` is told when one of them stood still for more than `lag` seconds.
    """
    settings = Settings(wire=wire, origin=time.perf_counter() - clock(), tick=tick, lag=lag)
    async with AsyncExitStack() as stack:
        workers = [await stack.enter_async_context(_started(settings, late)) for _ in range(count)]
        yield Workers(workers, done_due)


@asynccontextmanager
async def _started(settings: Settings, late: TellLag) -> AsyncIterator[_Worker]:
    ours, theirs = socket.socketpair()
    process = _process(theirs)
    theirs.close()
    reader, writer = await asyncio.open_connection(sock=ours)
    worker = _Worker(process.pid, reader, writer, late)
    listening = asyncio.get_running_loop().create_task(worker.listen())
    try:
        writer.write(framed(settings))
        yield worker
    finally:
        listening.cancel()
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()
        await asyncio.shield(asyncio.to_thread(_ended, process))


def _process(end: socket.socket) -> subprocess.Popen[bytes]:
    # A session of its own: Ctrl-C is for the run, which then drains what its workers have under way.
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "kvstress.client.worker", str(end.fileno())],
        pass_fds=(end.fileno(),),
        stdin=subprocess.DEVNULL,
        start_new_session=True,
    )


def _ended(process: subprocess.Popen[bytes]) -> None:
    try:
        process.wait(5.0)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
