"""Why an exchange broke, from what the event loop and the parser said, not from the class the HTTP library gives it.

The library's classes overlap: a server that closes without a word is a "connect timeout" in one bridge, and a reset in
mid-body is the same class as a short one. So the whole chain of causes is read, innermost facts first: what
the loop said when the connection closed outranks what the parser made of the bytes that were left.
"""

import ssl
from collections.abc import Iterator

import aiohttp
from aiohttp.http_exceptions import (
    ContentEncodingError,
    ContentLengthError,
    HttpProcessingError,
    LineTooLong,
    TransferEncodingError,
)

from kvstress.core.outcome import Kind
from kvstress.core.words import cap

_MOST_WORDS = 300


def chain(failure: BaseException) -> Iterator[BaseException]:
    """`failure` and what caused it, outermost first."""
    seen: set[int] = set()
    link: BaseException | None = failure
    while link is not None and id(link) not in seen:
        seen.add(id(link))
        yield link
        link = link.__cause__ or link.__context__


def kind_of(failure: BaseException, *, lost: BaseException | None, connected: bool, received: int) -> Kind:
    """The kind of `failure`.

    `lost` is what the event loop said when the connection closed (None: the peer closed it properly, or it is open),
    `connected` whether there was a connection, `received` the bytes of the response that came.
    """
    links = tuple(chain(failure))
    if not connected:
        return _kind_of_connecting(links)
    if isinstance(lost, ssl.SSLError):
        return Kind.TLS
    if isinstance(lost, OSError) or any(isinstance(link, OSError) and link.errno is not None for link in links):
        return Kind.RESET
    if any(isinstance(link, ContentLengthError) for link in links):
        return Kind.SHORT_BODY
    if any(isinstance(link, TransferEncodingError) for link in links):
        return Kind.TRUNCATED_CHUNK
    if any(isinstance(link, LineTooLong) for link in links):
        return Kind.OVERSIZE_ANSWER
    if any(isinstance(link, HttpProcessingError) for link in links):
        return Kind.PROTOCOL
    return Kind.NO_RESPONSE if not received or _said_nothing(links) else Kind.PROTOCOL


def _kind_of_connecting(links: tuple[BaseException, ...]) -> Kind:
    if any(isinstance(link, ssl.SSLError | aiohttp.ClientSSLError) for link in links):
        return Kind.TLS
    if any(isinstance(link, ConnectionRefusedError) for link in links):
        return Kind.CONNECTION_REFUSED
    # TCP itself never resets a connection that it is about to make: the handshake after it was under way.
    if any(isinstance(link, ConnectionResetError | ConnectionAbortedError) for link in links):
        return Kind.TLS
    return Kind.CONNECT_FAILED


def _said_nothing(links: tuple[BaseException, ...]) -> bool:
    """True when only interim responses (100, 103) came: aiohttp then has no half-read response to show."""
    return any(isinstance(link, aiohttp.ServerDisconnectedError) and isinstance(link.message, str) for link in links)


def words_of(failure: BaseException) -> str:
    """The innermost cause in one line: it is the one that says what happened."""
    links = tuple(chain(failure))
    if any(isinstance(link, LineTooLong) for link in links):
        return "a line of the answer's head is longer than kvstress reads"
    innermost = links[-1]
    if any(isinstance(link, ContentEncodingError) for link in links):
        return cap(f"the body is not encoded as its Content-Encoding says ({innermost})", _MOST_WORDS)
    said = innermost.message if isinstance(innermost, HttpProcessingError) else str(innermost)
    return cap(" ".join(said.split()) or type(innermost).__name__, _MOST_WORDS)
