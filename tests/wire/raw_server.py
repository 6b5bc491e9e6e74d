"""A server that says exactly these bytes, on a real socket: what no HTTP library would let a test send."""

import asyncio
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

Act = Callable[["Peer"], Awaitable[None]]


@dataclass
class Peer:
    """One connection of the client, after a request was read: `head` and `body` are that request."""

    server: "Server"
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    head: bytes
    body: bytes

    async def say(self, *pieces: bytes) -> None:
        for piece in pieces:
            self.writer.write(piece)
            await self.writer.drain()
            await asyncio.sleep(0.02)

    def reset(self) -> None:
        """Close with RST instead of FIN."""
        held = self.writer.get_extra_info("socket")
        held.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()


@dataclass
class Server:
    """Where it listens, and the requests it has read."""

    port: int
    heads: list[bytes] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)
    connections: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


async def _request(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    head = await reader.readuntil(b"\r\n\r\n")
    length = next((int(line[15:]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")), 0)
    return head, await reader.readexactly(length)


@asynccontextmanager
async def serving(
    act: Act, *, host: str = "127.0.0.1", tls: ssl.SSLContext | None = None, greeting: bytes = b""
) -> AsyncIterator[Server]:
    """Run `act` for each request; the connection stays open for the next one unless `act` closes it.

    With a `greeting` the server says that to whoever connects, listens to nothing, and closes.
    """
    peers: set[asyncio.Task[None]] = set()

    async def meet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        peers.add(task)
        server.connections += 1
        writer.write(greeting)
        try:
            while not greeting:
                head, body = await _request(reader)
                server.heads.append(head)
                server.bodies.append(body)
                await act(Peer(server, reader, writer, head, body))
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            peers.discard(task)
            writer.close()

    listener = await asyncio.start_server(meet, host, 0, ssl=tls)
    server = Server(port=listener.sockets[0].getsockname()[1])
    try:
        yield server
    finally:
        listener.close()
        for task in tuple(peers):
            task.cancel()
        await asyncio.gather(*peers, return_exceptions=True)
        await listener.wait_closed()


def answer(body: bytes, status: str = "200 OK", *headers: str, kind: str = "application/json") -> bytes:
    """A whole response with its Content-Length."""
    lines = (f"HTTP/1.1 {status}", f"Content-Type: {kind}", f"Content-Length: {len(body)}", *headers)
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


STREAM_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
LAST_CHUNK = b"0\r\n\r\n"


def chunk(data: bytes) -> bytes:
    """`data` as one HTTP chunk."""
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


def event(text: str) -> bytes:
    """One server-sent data event."""
    return f"data: {text}\n\n".encode()


def said(text: str, finish: str = "null") -> bytes:
    """A chat chunk that carries `text`; `finish` is a JSON value."""
    return event(f'{{"id":"c-1","choices":[{{"index":0,"delta":{{"content":"{text}"}},"finish_reason":{finish}}}]}}')


DONE = event("[DONE]")
WHOLE = b'{"id":"c-1","model":"m","choices":[{"index":0,"message":{"content":"hello"},"finish_reason":"stop"}]}'
