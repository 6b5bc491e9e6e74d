"""The wire: sends one request and writes down everything that the network and the server did with it.

No limit on connections, no retry, no redirect, no proxy from the environment: each of them would hide what a stress
test looks for or would queue requests where no clock sees them. Whatever happens becomes an `Exchange`; only a
cancellation by the caller passes through, because then nobody is waiting for one.
"""

import asyncio
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http.cookiejar import CookieJar, DefaultCookiePolicy
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import aiohttp
import httpx
import msgspec

from kvstress.client.address import address, proxy_for, trusted
from kvstress.client.answer import Reader, reader
from kvstress.client.assembly import Answer
from kvstress.client.causes import kind_of, words_of
from kvstress.client.transport import Attempt, Body, Transport
from kvstress.core.exchange import Exchange
from kvstress.core.outcome import Kind

Clock = Callable[[], float]

MOST_BYTES: Final = 64 << 20
# How long a stream may stay open after its [DONE]: ended it is already, this only lets late bytes be seen.
_LINGER: Final = 1.0
_BROKE = (aiohttp.ClientError, httpx.TransportError, OSError)
_RESENT = "transport: the server closed the idle connection before any of the request reached it; sent on a new one"

_encoder = msgspec.json.Encoder()


def encode(body: Mapping[str, Any]) -> bytes:
    """`body` as JSON, keys in the order given: equal bodies give equal bytes."""
    return _encoder.encode(body)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetched:
    """A page. `status` is None when none came whole; `problem` then says why, in words."""

    status: int | None
    text: str
    content_type: str
    problem: str | None


class _Course:
    """How far a request has come; read when it is over, however that came about."""

    __slots__ = (
        "body_bytes",
        "cancel_chunks",
        "ended",
        "ended_by",
        "headers_at",
        "location",
        "reader",
        "retry_after",
        "sent",
        "status",
        "transport",
    )

    def __init__(self, sent: float, cancel_chunks: int | None) -> None:
        self.sent = sent
        self.cancel_chunks = sys.maxsize if cancel_chunks is None else cancel_chunks
        self.headers_at: float | None = None
        self.ended = sent
        self.ended_by: Kind | None = None
        self.status: int | None = None
        self.retry_after: str | None = None
        self.location: str | None = None
        self.reader: Reader | None = None
        self.body_bytes = 0
        self.transport: list[str] = []


class Wire:
    """Client of one server; an async context manager, used on one event loop.

    `timeout` is the seconds a request may take from its sending to its last byte, however steadily bytes drip;
    `most_bytes` the longest body that is read. Set `done_due` to False once a healthy stream was seen to end without
    `[DONE]`: some servers never send it, and only a finish reason then tells a whole stream.
    Raises UsageError for a URL, header or `ca_file` that cannot be used.
    """

    def __init__(
        self,
        base_url: str,
        *,
        headers: Mapping[str, str] = {},
        ca_file: Path | None = None,
        timeout: float = 900.0,
        clock: Clock,
        trust_env: bool = False,
        most_bytes: int = MOST_BYTES,
    ) -> None:
        self._address = address(base_url, headers)
        self._timeout = timeout
        self._clock = clock
        self._most_bytes = most_bytes
        self.done_due = True
        root = self._address.root
        self._client = httpx.AsyncClient(
            transport=Transport(
                clock=clock,
                verify=trusted(root, ca_file, trust_env=trust_env),
                proxy=proxy_for(root) if trust_env else None,
            ),
            headers={"User-Agent": "kvstress", "Accept-Encoding": "identity", **self._address.headers},
            cookies=CookieJar(DefaultCookiePolicy(allowed_domains=())),
            timeout=None,
            trust_env=False,
        )

    @property
    def shown_url(self) -> str:
        """The server's URL without user information."""
        return self._address.shown

    def __repr__(self) -> str:
        return f"Wire({self._address.shown!r})"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        await self._client.aclose()

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
        """POST `body` and read the answer to its end. Never raises for what the server or the network does.

        After `cancel_after` seconds, or at content chunk number `cancel_chunks`, the connection is closed; what had
        come by then is in the exchange, whose kind is CANCELLED.
        """
        request = self._client.build_request(
            "POST", self._address.url(endpoint), content=body, headers={"Content-Type": "application/json"}
        )
        course = _Course(self._clock(), cancel_chunks)
        hasty = cancel_after is not None and cancel_after < self._timeout
        try:
            async with asyncio.timeout(cancel_after if hasty else self._timeout) as deadline:
                await self._follow(request, course, deadline, stream=stream)
        except TimeoutError:
            course.ended_by = Kind.CANCELLED if hasty else Kind.DEADLINE
        except _BROKE as failure:
            self._note(failure, request, course)
        course.ended = self._clock()
        return self._exchange(request_id, due, course)

    async def _follow(
        self, request: httpx.Request, course: _Course, deadline: asyncio.Timeout, *, stream: bool
    ) -> None:
        response = await self._client.send(request, stream=True)
        body: Body = response.extensions["body"]
        try:
            self._begin(response, body, course, stream=stream)
            await self._read(body, course, deadline)
        finally:
            await response.aclose()

    def _begin(self, response: httpx.Response, body: Body, course: _Course, *, stream: bool) -> None:
        course.headers_at = body.protocol.read_at
        course.status = response.status_code
        course.retry_after = response.headers.get("retry-after")
        content_type = response.headers.get("content-type", "")
        course.reader = reader(course.status, content_type, course.retry_after, stream=stream, done_due=self.done_due)
        course.location = body.location
        if body.resent:
            course.transport.append(_RESENT)

    async def _read(self, body: Body, course: _Course, deadline: asyncio.Timeout) -> None:
        """Read to the end of the body: `take` runs once per network read, so nothing in it may cost."""
        taker, most, cancel_chunks = course.reader, self._most_bytes, course.cancel_chunks
        assert taker is not None
        chunk_at, lingering = taker.chunk_at, False

        def take(data: bytes, at: float) -> bool:
            nonlocal lingering
            course.body_bytes += len(data)
            if course.body_bytes > most:
                course.ended_by = Kind.OVERSIZE_ANSWER
                return False
            taker.feed(data, at)
            if taker.done_at is None:
                if len(chunk_at) >= cancel_chunks:
                    course.ended_by = Kind.CANCELLED
                    return False
            elif not lingering and not deadline.expired():
                lingering = True
                deadline.reschedule(asyncio.get_running_loop().time() + _LINGER)
            return True

        await body.pour(take)
        if course.ended_by is None and body.was_reset:
            course.ended_by = Kind.RESET

    def _note(self, failure: BaseException, request: httpx.Request, course: _Course) -> None:
        course.ended_by = _cause(failure, request)
        course.transport.append(f"transport: {words_of(failure)}")

    def _exchange(self, request_id: str, due: float, course: _Course) -> Exchange:
        taker = course.reader
        if taker is None:
            assert course.ended_by is not None
            answer = Answer(kind=course.ended_by)
        else:
            answer = taker.end(course.ended_by)
        hide = self._address.hide
        words = answer.words
        if course.location is not None:
            words = f"Location: {course.location}" + (f" ({words})" if words else "")
        return Exchange(
            request=request_id,
            due=due,
            sent=course.sent,
            headers_at=course.headers_at,
            ended=course.ended if taker is None or taker.done_at is None else taker.done_at,
            kind=answer.kind,
            status=course.status,
            chunk_at=tuple(taker.chunk_at) if taker else (),
            chunk_bytes=tuple(taker.chunk_bytes) if taker else (),
            body_bytes=course.body_bytes,
            choices=answer.choices,
            usage=answer.usage,
            model=answer.model,
            server_words=None if words is None else hide(words),
            error_bytes=None if answer.fault is None else hide(answer.fault),
            violations=tuple(map(hide, (*answer.violations, *course.transport))),
            retry_after=course.retry_after,
        )

    async def fetch(
        self, path: str, *, timeout: float = 10.0, method: str = "GET", body: bytes | None = None
    ) -> Fetched:
        """One page, such as /metrics or /v1/models, within `timeout` seconds. Never raises for what the server does."""
        kind = {} if body is None else {"Content-Type": "application/json"}
        request = self._client.build_request(method, self._address.url(path), content=body, headers=kind)
        try:
            async with asyncio.timeout(timeout):
                return await self._page(request)
        except TimeoutError:
            return _no_page(f"no answer within {timeout:g} s")
        except _BROKE as failure:
            kind_text = _cause(failure, request).value.replace("-", " ")
            return _no_page(self._address.hide(f"{kind_text}: {words_of(failure)}"))

    async def _page(self, request: httpx.Request) -> Fetched:
        response = await self._client.send(request, stream=True)
        source: Body = response.extensions["body"]
        parts: list[bytes] = []
        left = self._most_bytes
        try:
            while data := await source.read():
                left -= len(data)
                if left < 0:
                    return _no_page(f"the page is longer than {self._most_bytes:,} bytes")
                parts.append(data)
        finally:
            await response.aclose()
        text = b"".join(parts).decode("utf-8", "replace")
        return Fetched(
            status=response.status_code,
            text=text if source.location is None else f"Location: {source.location} {text}".rstrip(),
            content_type=response.headers.get("content-type", ""),
            problem=None,
        )


def _cause(failure: BaseException, request: httpx.Request) -> Kind:
    attempt: Attempt = request.extensions["attempt"]
    held = attempt.protocol
    if held is None:
        return kind_of(failure, lost=None, connected=False, received=0)
    return kind_of(failure, lost=held.lost, connected=True, received=held.received)


def _no_page(problem: str) -> Fetched:
    return Fetched(status=None, text="", content_type="", problem=problem)
