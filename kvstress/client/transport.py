"""httpx over aiohttp, keeping what the ready-made bridge loses: why an exchange ended and when each read came.

aiohttp's own exceptions cannot tell a reset from a short chunk once a body has begun, and a reset of a body that
is delimited by the close alone looks like its proper end. The protocol object is told both by the event loop, so the
one used here remembers what it was told, and stamps each network read when it happens instead of
when a task gets round to it. aiohttp would also send a GET a second time on its own; that is switched off, since a
retry hides what we look for.

A kept-alive connection that the server closes while it is idle is a race that every client meets. Here an idle
connection that already shows its peer's farewell is dropped before anything is sent. If the farewell crosses the
request under way, TCP says whether the peer's kernel took in a single byte of it: if not, nobody can have processed
it and it leaves once more on a new connection (`Body.resent`); otherwise it is reported like any other failure.
A connection that carried an error is not used again: servers whose handler crashed hang up right after the answer,
and the next request would be called broken for it. Real llama.cpp hangs up after each stream, a moment late and
without having said so. Hence the first time that a connection is to be used again, after a stream and after a page,
its peer is given the time to leave; one that was seen to stay is trusted from then on.
"""

import asyncio
import io
import re
import ssl
from collections.abc import AsyncIterator, Callable
from contextvars import ContextVar
from functools import partial
from typing import Any

import aiohttp
import httpx
from aiohttp.client_proto import ResponseHandler
from aiohttp.connector import Connection
from aiohttp.helpers import _EXC_SENTINEL, set_exception
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.streams import StreamReader

from kvstress.client.idle import acknowledged, has_farewell
from kvstress.core.words import cap

_BYTES_PER_READ = 1 << 18
_WHOLE_WRITE = 1 << 20
# aiohttp's own limit is 8,190 bytes for a line of an answer's head, and real servers send longer ones.
LONGEST_FIELD = 256 << 10
# Seconds an idle connection is kept: less than the 5 s after which common servers hang up, which avoids most races.
_IDLE = 3.0
_MOST_LOCATION, _USER = 300, re.compile(r"//[^/]*@")
# How often, and every how many seconds, a connection is looked at for its peer's leaving: 50 ms in all.
_LOOKS, _LOOK = 25, 0.002


# Takes what one network read brought of a body, and its time; False: nothing more of it is wanted.
Take = Callable[[bytes, float], bool]


class _Poured(StreamReader):
    """A body that is handed on where it arrives instead of being buffered until a task asks for it.

    aiohttp makes its bodies itself, so an existing one is turned into this class; hence no fields of its own.
    """

    __slots__ = ()

    def feed_data(self, data: bytes, size: int = 0) -> bool:
        protocol: Any = self._protocol
        protocol.poured.append(data)
        return False

    def begin_http_chunk_receiving(self) -> None:
        """Where HTTP cut the body says nothing about what is in it."""

    def end_http_chunk_receiving(self) -> None:
        """As above."""


class Watched(ResponseHandler):
    """One connection. `read_at` is the time of the last network read; `lost` what the event loop said when it closed.

    `received` counts bytes since the present request took the connection; `taken` the requests that did. A body that
    is poured collects in `poured` while one network read is parsed; then `pour_into` takes it.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, clock: Callable[[], float]) -> None:
        super().__init__(loop)
        self._clock = clock
        self.read_at = clock()
        self.received = 0
        self.taken = 0
        self.errored = False
        self.streamed = False
        self.lost: BaseException | None = None
        self.poured: list[bytes] = []
        self.pour_into: Callable[[bytes], None] | None = None
        self._acked_before: int | None = None
        self._acked_at_loss: int | None = None

    def take(self) -> None:
        """A request takes this connection for itself."""
        self.taken += 1
        self.received = 0
        if self.taken > 1:
            self._acked_before = acknowledged(self.transport)

    def data_received(self, data: bytes) -> None:
        if data:  # none: a paused parser takes up again, and nothing came from the network
            self.read_at = self._clock()
            self.received += len(data)
        super().data_received(data)
        if self.poured:
            self._hand_on()

    def _hand_on(self) -> None:
        parts, self.poured = self.poured, []
        if self.pour_into is not None:
            self.pour_into(parts[0] if len(parts) == 1 else b"".join(parts))

    def resume_reading(self, resume_parser: bool = True) -> None:
        # aiohttp calls this after each read of a body, paused or not, and then runs its parser over no bytes at all.
        if self._reading_paused:
            super().resume_reading(resume_parser)

    def set_exception(self, exc: BaseException, exc_cause: BaseException = _EXC_SENTINEL) -> None:
        super().set_exception(exc, exc_cause)
        # aiohttp tells only who waits for headers that the bytes are not HTTP; who reads the body would wait for ever.
        body = self._payload
        if isinstance(exc, HttpProcessingError) and body is not None and not body.is_eof():
            set_exception(body, aiohttp.ClientPayloadError(exc.message), exc)

    def connection_lost(self, exc: BaseException | None) -> None:
        self.lost = exc
        self._acked_at_loss = acknowledged(self.transport) if self.taken > 1 and not self.received else None
        super().connection_lost(exc)
        if self.poured:  # what a decompressor still held
            self._hand_on()

    def was_untouched(self) -> bool:
        """True when this connection had served before and TCP proves that its peer took nothing of this request."""
        if self.taken < 2 or self.received or self._acked_before is None:
            return False
        now = self._acked_at_loss if self.transport is None else acknowledged(self.transport)
        return now == self._acked_before


class Attempt:
    """What one request learns of its connection before there is a response to ask: aiohttp gives no other way."""

    __slots__ = ("fresh", "protocol")

    def __init__(self, *, fresh: bool = False) -> None:
        self.fresh = fresh
        self.protocol: Watched | None = None


_attempt: ContextVar[Attempt] = ContextVar("attempt")


class _Connector(aiohttp.TCPConnector):
    """Any number of connections, each one watched, none taken from the pool when its peer has left."""

    def __init__(
        self,
        clock: Callable[[], float],
        is_stale: Callable[[asyncio.BaseTransport | None], bool],
        looks: int,
        **rest: Any,
    ) -> None:
        super().__init__(limit=0, **rest)
        self._is_stale = is_stale
        self._looks = looks
        self._stays: set[bool] = set()
        factory: Any = partial(Watched, loop=self._loop, clock=clock)
        self._factory = factory

    async def connect(self, req: Any, traces: Any, timeout: Any) -> Connection:
        attempt = _attempt.get()
        while True:  # each turn closes one pooled connection, so this ends with a new one at the latest
            connection = await super().connect(req, traces, timeout)
            protocol = connection.protocol
            assert isinstance(protocol, Watched)
            if not protocol.taken:
                break
            try:
                if not (attempt.fresh or protocol.errored or await self._leaves(protocol)):
                    break
            except asyncio.CancelledError:
                connection.close()
                raise
            connection.close()
        protocol.take()
        attempt.protocol = protocol
        return connection

    async def _leaves(self, protocol: Watched) -> bool:
        """Whether the peer of an idle connection has left, or does so while its manners are not known yet."""
        if protocol.streamed in self._stays:
            return self._is_stale(protocol.transport)
        # Looks are counted, not time: what stands still together with this loop has not had its time then.
        for _ in range(self._looks):
            if self._is_stale(protocol.transport):
                return True
            await asyncio.sleep(_LOOK)
        self._stays.add(protocol.streamed)
        return False


class Body(httpx.AsyncByteStream):
    """The answer's bytes as the network gave them. `read()` returns what has arrived, b"" at the end.

    It raises aiohttp's exceptions; `protocol.lost` then holds what the event loop said.
    """

    def __init__(self, response: aiohttp.ClientResponse, protocol: Watched, resent: bool) -> None:
        self._response = response
        self._framed = "Content-Length" in response.headers or "Transfer-Encoding" in response.headers
        self.location = _location(response) if 300 <= response.status < 400 else None
        self.read = response.content.readany
        self.protocol = protocol
        self.resent = resent

    @property
    def was_reset(self) -> bool:
        """True when a body that only the close delimits ended in a reset, which aiohttp takes for its proper end."""
        return not self._framed and isinstance(self.protocol.lost, OSError)

    async def pour(self, take: Take) -> None:
        """Hand each network read's part of the body to `take`, until the body ends or no more is wanted.

        `take` runs where the event loop read the bytes: waking a task for each of them, through all the callers that
        await it, costs more than decoding them. Raises as `read` does, but what came before a failure is
        handed over first: the last words before a crash are the ones to keep.
        """
        content, protocol = self._response.content, self.protocol
        if content.at_eof():
            return
        if content._buffer and not take(content._read_nowait(-1), protocol.read_at):
            return
        wanted = True

        def pour(data: bytes) -> None:
            nonlocal wanted
            crash: BaseException | None = None
            try:
                wanted = take(data, protocol.read_at)
            except BaseException as problem:  # noqa: BLE001 - raised where the body is awaited, not in the event loop
                wanted, crash = False, problem
            if not wanted:
                protocol.pour_into = None
                _wake(content._waiter, crash)

        content.__class__ = _Poured
        protocol.pour_into = pour
        try:
            while wanted and not content.is_eof():
                if (failure := content.exception()) is not None:
                    raise failure
                await content._wait("pour")
        finally:
            protocol.pour_into = None

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while data := await self.read():
            yield data

    async def aclose(self) -> None:
        self._response.close()


def _wake(waiter: asyncio.Future[None] | None, crash: BaseException | None) -> None:
    if waiter is None or waiter.done():
        return
    if crash is None:
        waiter.set_result(None)
    else:
        waiter.set_exception(crash)


class Transport(httpx.AsyncBaseTransport):
    """An httpx transport. Each response carries its `Body` in `extensions["body"]`.

    Raises what aiohttp raises, never httpx's own classes: their mapping is what loses the cause.
    A failed request leaves its connection in the request's `extensions["attempt"]`.
    """

    def __init__(
        self,
        *,
        clock: Callable[[], float],
        verify: ssl.SSLContext | None,
        proxy: str | None = None,
        is_stale: Callable[[asyncio.BaseTransport | None], bool] = has_farewell,
        looks: int = _LOOKS,
    ) -> None:
        self._clock = clock
        self._verify = verify
        self._proxy = proxy
        self._is_stale = is_stale
        self._looks = looks
        self._session: aiohttp.ClientSession | None = None

    def _open(self) -> aiohttp.ClientSession:
        connector = _Connector(
            self._clock,
            self._is_stale,
            self._looks,
            ssl=self._verify or True,
            ttl_dns_cache=None,
            keepalive_timeout=_IDLE,
        )
        session = aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=None),
            skip_auto_headers=("User-Agent", "Accept", "Content-Type"),
            read_bufsize=_BYTES_PER_READ,
            max_line_size=LONGEST_FIELD,
            max_field_size=LONGEST_FIELD,
            proxy=self._proxy,
        )
        session._retry_connection = False
        return session

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        try:
            return await self._once(request, Attempt(), resent=False)
        except (aiohttp.ClientError, OSError):
            protocol = request.extensions["attempt"].protocol
            if protocol is None or not protocol.was_untouched():
                raise
        return await self._once(request, Attempt(fresh=True), resent=True)

    async def _once(self, request: httpx.Request, attempt: Attempt, *, resent: bool) -> httpx.Response:
        if self._session is None:
            self._session = self._open()
        request.extensions["attempt"] = attempt
        _attempt.set(attempt)
        response = await self._session.request(
            request.method,
            str(request.url),
            headers=request.headers,
            data=_payload(request.content),
            allow_redirects=False,
        )
        assert attempt.protocol is not None
        attempt.protocol.errored = response.status >= 400
        attempt.protocol.streamed = response.content_type == "text/event-stream"
        body = Body(response, attempt.protocol, resent)
        # httpx would read the Location of a redirect even where none is followed, and give up at one that is no URL.
        headers = [(name, value) for name, value in response.raw_headers if name.lower() != b"location"]
        return httpx.Response(response.status, headers=headers, stream=body, request=request, extensions={"body": body})

    async def aclose(self) -> None:
        if self._session is not None:
            await self._session.close()


def _location(response: aiohttp.ClientResponse) -> str | None:
    """Where a redirect points to, without user information and query, which may hold a key."""
    raw = next((value for name, value in response.raw_headers if name.lower() == b"location"), None)
    if raw is None:
        return None
    where = raw.decode("utf-8", "replace").partition("?")[0].partition("#")[0]
    return cap(_USER.sub("//", where, count=1), _MOST_LOCATION)


def _payload(content: bytes) -> bytes | io.BytesIO | None:
    """aiohttp warns about large bodies given as bytes, because it would write them in one piece."""
    return io.BytesIO(content) if len(content) > _WHOLE_WRITE else content or None
