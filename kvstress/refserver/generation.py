"""The two endpoints that generate, from bytes to bytes.

They are plain ASGI: one task reads the socket for a disconnect while the answer is produced, and whatever ends the
request (an answer, an error, a client gone) takes its sequences out of the engine.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from kvstress.refserver import answers, wire
from kvstress.refserver.answers import Envelope, Usage
from kvstress.refserver.engine import Engine
from kvstress.refserver.hooks import Call
from kvstress.refserver.requests import Ask
from kvstress.refserver.sequence import Chunk, Failure, Output, Sequence, Started
from kvstress.refserver.wire import BadRequest

MAX_BODY_BYTES = 16 * 2**20


class ClientGone(Exception):  # noqa: N818 - not an error of ours
    """The client closed the connection before its answer was complete."""


@dataclass(slots=True, kw_only=True)
class Job:
    """One request in flight: its sequences, and the queue their outputs arrive in."""

    ask: Ask
    usage: Usage
    sequences: list[Sequence] = field(default_factory=list)
    outputs: asyncio.Queue[tuple[int, Output] | None] = field(default_factory=asyncio.Queue)


class Generation:
    """An ASGI endpoint; `parse` makes an Ask of a body and of the pool size in tokens."""

    def __init__(self, engine: Engine, parse: Callable[[dict[str, Any], float], Ask]) -> None:
        self.engine = engine
        self.parse = parse
        self.hooks = engine.scheduler.hooks
        self._calls = count(1)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            call = Call(number=next(self._calls), body=wire.parse_object(await read_body(receive)), scope=scope)
            room = float("inf") if self.hooks.oversize() else self.engine.stats.capacity_tokens
            ask = self.parse(self.hooks.body(call), room)
        except BadRequest as error:
            await error_response(error.message, error.status, error.param)(scope, receive, send)
        except ClientGone:
            return
        else:
            await self._answer(ask, call, receive, send)

    async def _answer(self, ask: Ask, call: Call, receive: Receive, send: Send) -> None:
        job = submit(self.engine, ask)
        watch = asyncio.create_task(_watch(receive, job))
        try:
            if ask.stream:
                await send_stream(send, self.hooks.events(call, stream(job)))
            else:
                await self.hooks.answer(call, await whole(job))(call.scope, receive, send)
        except ClientGone:
            return
        finally:
            watch.cancel()
            for sequence in job.sequences:
                self.engine.cancel(sequence)


async def read_body(receive: Receive) -> bytes:
    """The request body. Raises BadRequest when it is too large, ClientGone when it never ends."""
    parts, size = [], 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientGone
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        if size > MAX_BODY_BYTES:
            raise BadRequest(f"the body has more than {MAX_BODY_BYTES} bytes", status=413)
        if not message.get("more_body"):
            return b"".join(parts)


def error_response(message: str, status: int, param: str | None = None, code: str | None = None) -> Response:
    """An error as a response of its own."""
    return Response(wire.to_json(wire.error_body(message, status, param, code)), status, media_type="application/json")


def submit(engine: Engine, ask: Ask) -> Job:
    """Hand every choice to the engine; outputs come back on the running loop."""
    job = Job(ask=ask, usage=Usage(prompt=sum(len(prompt.tokens) for prompt in ask.prompts)))
    loop = asyncio.get_running_loop()
    for prompt in ask.prompts:
        for _ in range(ask.n):
            index = len(job.sequences)
            params = replace(ask.params, seed=ask.params.seed + index) if ask.seeded else ask.params
            deliver = _deliver(loop, job, index)
            job.sequences.append(engine.submit(prompt, params, ask.limits, deliver, seeded=ask.seeded))
    return job


def _deliver(loop: asyncio.AbstractEventLoop, job: Job, index: int) -> Callable[[Output], None]:
    """An answer in one piece crosses to the loop in one piece: waking it for every token would slow the engine."""
    held: list[tuple[int, Output]] = []

    def deliver(output: Output) -> None:
        nonlocal held
        held.append((index, output))
        ends = isinstance(output, Failure) or (isinstance(output, Chunk) and output.finish_reason is not None)
        if (job.ask.stream or ends) and not loop.is_closed():
            loop.call_soon_threadsafe(_put, job, held)
            held = []

    return deliver


def _put(job: Job, outputs: list[tuple[int, Output]]) -> None:
    for output in outputs:
        job.outputs.put_nowait(output)


async def _watch(receive: Receive, job: Job) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    job.outputs.put_nowait(None)


async def outputs(job: Job) -> AsyncIterator[tuple[int, Chunk | Failure]]:
    """Outputs of all choices until each has ended. Raises ClientGone."""
    open_choices = len(job.sequences)
    while open_choices:
        item = await job.outputs.get()
        if item is None:
            raise ClientGone
        index, output = item
        if isinstance(output, Started):
            # Choices of one prompt share it: count the prompt once, as the caller does.
            if index % job.ask.n == 0:
                job.usage.cached += output.cached_tokens
            continue
        if isinstance(output, Chunk):
            job.usage.completion += len(output.tokens)
            open_choices -= output.finish_reason is not None
        yield index, output
        if isinstance(output, Failure):
            return


async def whole(job: Job) -> Response:
    """The answer in one piece; an engine failure is a 500."""
    said = [Chunk(text="") for _ in job.sequences]
    async for index, output in outputs(job):
        if isinstance(output, Failure):
            return error_response(output.message, 500, code=output.code)
        said[index] = _joined(said[index], output)
    choices = [answers.choice(index, chunk, job.ask) for index, chunk in enumerate(said)]
    return Response(wire.to_json(Envelope(ask=job.ask).body(choices, job.usage)), media_type="application/json")


def _joined(before: Chunk, chunk: Chunk) -> Chunk:
    return Chunk(
        text=before.text + chunk.text,
        tokens=before.tokens + chunk.tokens,
        logprobs=before.logprobs + chunk.logprobs,
        finish_reason=chunk.finish_reason,
    )


async def stream(job: Job) -> AsyncIterator[bytes]:
    """The answer as server-sent events; an engine failure is an event with an error object, and the end."""
    envelope = Envelope(ask=job.ask)
    offsets = [0] * len(job.sequences)
    for index in range(len(job.sequences) if job.ask.is_chat else 0):
        yield wire.sse(envelope.chunk([answers.opening(index, job.ask)]))
    async for index, output in outputs(job):
        if isinstance(output, Failure):
            yield wire.sse(wire.error_body(output.message, 500, code=output.code))
            return
        yield wire.sse(envelope.chunk([answers.delta(index, output, job.ask, offsets[index])]))
        offsets[index] += len(output.text)
    if job.ask.include_usage:
        yield wire.sse(envelope.usage_chunk(job.usage))
    yield wire.SSE_DONE


async def send_stream(send: Send, events: AsyncIterator[bytes]) -> None:
    """Send events as they come, then end the response."""
    headers = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"cache-control", b"no-cache")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    async for event in events:
        await send({"type": "http.response.body", "body": event, "more_body": True})
    await send({"type": "http.response.body", "body": b"", "more_body": False})
