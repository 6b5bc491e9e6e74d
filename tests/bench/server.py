"""A server that does nothing but stream on time, and says in its tokens when it did.

A client can only be timed against a server that costs much less than it does, so this one has no framework: one
protocol object a connection, bytes made once, a write per event. The n-th token is the time at which it was
written, the first one also tells when its request had come whole; both are of the clock that the clients read too
(CLOCK_MONOTONIC), so what a client measured can be held against what happened. The model's name says the pace:
`every-20ms` is an event every 20 ms, `every-0ms` one per turn of the loop, as fast as the client takes them.
"""

import asyncio
import re
import sys
import time
from typing import Any

import msgspec
import uvloop

_HEAD = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ncache-control: no-cache\r\n"
    b"transfer-encoding: chunked\r\n\r\n"
)
_BEFORE = (
    b'data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"mock","choices":[{"index":0,'
    b'"delta":{"content":"'
)
_AFTER = b'"},"logprobs":null,"finish_reason":null}]}\n\n'
_FINISH = b'data: {"id":"chatcmpl-1","choices":[{"index":0,"delta":{},"finish_reason":"length"}]}\n\n'
_PACE = re.compile(r"every-([0-9.]+)ms")
STAMP = " %014.6f"
EVENT_BYTES = len(_BEFORE) + len(STAMP % 0.0) + len(_AFTER)
_LENGTH = b"content-length:"


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def _event(text: str) -> bytes:
    return _chunk(_BEFORE + text.encode() + _AFTER)


class Asked(msgspec.Struct):
    """What of a request decides the answer."""

    model: str = ""
    max_tokens: int = 16
    max_completion_tokens: int | None = None
    stream: bool = False


_asked = msgspec.json.Decoder(Asked).decode


class Connection(asyncio.Protocol):
    """One connection; requests on it are answered one after another."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._held = bytearray()
        self._full = False
        self._left = 0
        self._gap = 0.0
        self._next = 0.0
        self._usage = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: Any = transport

    def pause_writing(self) -> None:
        self._full = True

    def resume_writing(self) -> None:
        self._full = False

    def data_received(self, data: bytes) -> None:
        self._held += data
        end = self._held.find(b"\r\n\r\n")
        if end < 0:
            return
        head = bytes(self._held[:end])
        found = head.lower().find(_LENGTH)
        length = int(head[found + len(_LENGTH) :].split(b"\r", 1)[0]) if found >= 0 else 0
        if len(self._held) >= end + 4 + length:
            body = bytes(self._held[end + 4 : end + 4 + length])
            del self._held[: end + 4 + length]
            self._answer(head, body)

    def _answer(self, head: bytes, body: bytes) -> None:
        if head.startswith(b"POST"):
            self._generate(_asked(body), len(body))
        elif b"/v1/models" in head.split(b"\r\n", 1)[0]:
            self._page(b'{"object":"list","data":[{"id":"every-20ms","object":"model"}]}')
        elif b"/health" in head.split(b"\r\n", 1)[0]:
            self._page(b"{}")
        else:
            self._transport.write(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n")

    def _page(self, body: bytes) -> None:
        self._transport.write(
            b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body)
        )

    def _generate(self, asked: Asked, size: int) -> None:
        tokens = asked.max_completion_tokens or asked.max_tokens
        self._usage = b'"usage":{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d}' % (
            size // 4,
            tokens,
            size // 4 + tokens,
        )
        if not asked.stream:
            self._page(
                b'{"id":"1","model":"mock","choices":[{"index":0,"message":{"role":"assistant","content":"%b"},'
                b'"finish_reason":"length"}],%b}' % (b" word" * tokens, self._usage)
            )
            return
        pace = _PACE.search(asked.model)
        self._gap = float(pace[1]) / 1000 if pace else 0.0
        came = time.perf_counter()
        self._transport.write(_HEAD)
        self._left = tokens
        self._next = self._loop.time() + self._gap
        if self._gap:
            self._loop.call_at(self._next, self._first, came)
        else:
            self._first(came)

    def _first(self, came: float) -> None:
        self._transport.write(_event(STAMP % came + STAMP % time.perf_counter()))
        self._after()

    def _tick(self) -> None:
        if self._full:
            self._loop.call_later(0.001, self._tick)
            return
        self._transport.write(_event(STAMP % time.perf_counter()))
        self._after()

    def _after(self) -> None:
        self._left -= 1
        if self._transport.is_closing():
            return
        if self._left <= 0:
            usage = b'data: {"id":"chatcmpl-1","choices":[],%b}\n\n' % self._usage
            self._transport.write(b"".join((_chunk(_FINISH), _chunk(usage), _chunk(b"data: [DONE]\n\n"), b"0\r\n\r\n")))
        elif self._gap:
            self._next += self._gap
            self._loop.call_at(self._next, self._tick)
        else:
            self._loop.call_soon(self._tick)


async def _serve() -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Connection(loop), "127.0.0.1", 0, backlog=4096)
    print(server.sockets[0].getsockname()[1], flush=True)
    await loop.run_in_executor(None, sys.stdin.read)  # lives as long as whoever holds its standard input
    server.close()


if __name__ == "__main__":
    uvloop.run(_serve())
