"""The three ways to read a response: as a stream, as one answer, as a refusal.

All take bytes as they arrive and are asked once, at the end, what they were. If the transport or the clock
ended the response, `end` is told so; that decides the kind only when nothing said before was already wrong,
because an error that the server reported says more than the reset that followed it.
"""

from array import array
from typing import Final, Protocol

import msgspec

from kvstress.client.assembly import Answer, Assembly
from kvstress.client.shapes import decode
from kvstress.client.sse import Decoder, LineTooLongError, Named
from kvstress.client.words import kind_of_status, readable, words_in
from kvstress.core.outcome import Kind

_DONE: Final = b"[DONE]"


class Reader(Protocol):
    """`feed` takes one network read and its time; `end` says what it all was. `ended_by` is None for a proper end."""

    chunk_at: "array[float]"
    chunk_bytes: "array[int]"
    done_at: float | None

    def feed(self, data: bytes, at: float) -> None: ...
    def end(self, ended_by: Kind | None) -> Answer: ...


class Streamed:
    """An answer in server-sent events.

    `chunk_at` (seconds) and `chunk_bytes` get one entry per read that carried content; `done_at` is when `[DONE]` came.
    `done_due` is False on a server that was seen never to send it.
    """

    def __init__(self, *, done_due: bool = True) -> None:
        self._done_due = done_due
        self.chunk_at = array("d")
        self.chunk_bytes = array("q")
        self.done_at: float | None = None
        self._decoder = Decoder()
        self._assembly = Assembly(streamed=True)
        self._broken = False

    def feed(self, data: bytes, at: float) -> None:
        if self._broken:
            return
        try:
            events = self._decoder.feed(data)
        except LineTooLongError as why:
            self._broken = True
            self._assembly.fail(Kind.OVERSIZE_ANSWER, str(why))
            return
        grown = False
        for event in events:
            if self._take(event, at):
                grown = True
        if grown:
            self.chunk_at.append(at)
            self.chunk_bytes.append(len(data))

    def _take(self, event: bytes | Named, at: float) -> bool:
        """True when `event` carried content."""
        if isinstance(event, Named):
            return self._take_named(event, at)
        if event[:1] != b"{" and self._is_marker(event, at):
            return False
        try:
            piece = decode(event)
        except (msgspec.DecodeError, RecursionError) as why:
            self._assembly.fail(Kind.MALFORMED, f"a chunk does not parse: {why}", event)
            return False
        if (failure := piece.failure()) is not None:
            self._assembly.say_failed(failure, event)
        elif self.done_at is not None:
            self._assembly.note("a chunk came after [DONE]")
            return False
        elif piece.choices is None and piece.usage is None:
            self._assembly.note("an event carries no choices")
        return self._assembly.add(piece)

    def _is_marker(self, payload: bytes, at: float) -> bool:
        """True for `[DONE]`, however padded, and for an event without data, which some servers send as a heartbeat."""
        marker = payload.strip()
        if marker != _DONE:
            return not marker
        if self.done_at is None:
            self.done_at = at
        else:
            self._assembly.note("[DONE] came more than once")
        return True

    def _take_named(self, event: Named, at: float) -> bool:
        if event.name != "error":
            return self._take(event.data, at)
        self._assembly.fail(Kind.STREAM_ERROR, "an event named error came", event.data, words_in(event.data))
        return False

    def end(self, ended_by: Kind | None) -> Answer:
        if not self._broken:
            self._end_decoder()
        assembly = self._assembly
        if ended_by is not None and self.done_at is None:
            assembly.fail(ended_by, _ended("it", ended_by))
            return assembly.conclude()
        assembly.check_finishes()
        if ended_by is not None:
            assembly.note(f"the response did not end after [DONE]: {ended_by.value}")
        if self.done_at is None and self._done_due:
            assembly.fail(Kind.MISSING_DONE, "[DONE] did not come")
        elif self.done_at is None:
            assembly.note("[DONE] did not come, as on this server's healthy streams")
        return assembly.conclude()

    def _end_decoder(self) -> None:
        """An unterminated last event counts if it is whole: `[DONE]` often is, and a dying server's last error."""
        for event in self._decoder.end():
            data = event.data if isinstance(event, Named) else event
            if data[:1] == b"{" and not _is_json(data):
                self._assembly.note("the last event is cut off")
            else:
                self._take(event, self.chunk_at[-1] if self.chunk_at else 0.0)


class Whole:
    """An answer in one body."""

    def __init__(self) -> None:
        self.chunk_at = array("d")
        self.chunk_bytes = array("q")
        self.done_at: float | None = None
        self._parts: list[bytes] = []

    def feed(self, data: bytes, at: float) -> None:
        self._parts.append(data)

    def end(self, ended_by: Kind | None) -> Answer:
        body = b"".join(self._parts)
        assembly = Assembly(streamed=False)
        if ended_by is not None:
            assembly.fail(ended_by, _ended("the body", ended_by), body)
            return assembly.conclude()
        try:
            piece = decode(body)
        except (msgspec.DecodeError, RecursionError) as why:
            what = f"the body does not parse: {why}" if body else "the body is empty"
            assembly.fail(Kind.MALFORMED, what, body, _page_words(body))
            return assembly.conclude()
        if (failure := piece.failure()) is not None:
            assembly.say_failed(failure, body)
        elif not piece.choices:
            assembly.fail(Kind.MALFORMED, "the body has no choices", body)
        assembly.add(piece)
        if assembly.kind is None:
            assembly.check_finishes()
        return assembly.conclude()


class Refusal:
    """A response whose status is not 200: its body is words."""

    def __init__(self, status: int, retry_after: str | None) -> None:
        self.chunk_at = array("d")
        self.chunk_bytes = array("q")
        self.done_at: float | None = None
        self._status = status
        self._retry_after = retry_after
        self._parts: list[bytes] = []

    def feed(self, data: bytes, at: float) -> None:
        self._parts.append(data)

    def end(self, ended_by: Kind | None) -> Answer:
        """The status decides even if the body broke off: it was sent."""
        body = b"".join(self._parts)
        said = readable(body)
        return Answer(
            kind=kind_of_status(self._status, said, self._retry_after),
            words=words_in(body),
            fault=said or None,
            violations=() if ended_by is None else (f"the error's body was cut off ({ended_by.value})",),
        )


def _ended(what: str, by: Kind) -> str:
    """Bytes that break HTTP's rules, or cannot be decoded, were not cut off: they came, and nobody can read them."""
    return f"{what} cannot be read to its end" if by is Kind.PROTOCOL else f"{what} was cut off"


def _is_json(data: bytes) -> bool:
    try:
        msgspec.json.decode(data, type=msgspec.Raw)
    except (msgspec.DecodeError, RecursionError):
        return False
    return True


def _page_words(body: bytes) -> str | None:
    """What a page says that was sent instead of an answer; JSON that is broken says nothing beyond itself."""
    return words_in(body) if body[:1] not in b"{[" else None


def reader(status: int, content_type: str, retry_after: str | None, *, stream: bool, done_due: bool = True) -> Reader:
    """How to read a response. What it says it is counts; where it says nothing of use, what was asked for does."""
    if status != 200:
        return Refusal(status, retry_after)
    kind = content_type.lower()
    if "event-stream" in kind:
        return Streamed(done_due=done_due)
    return Whole() if not stream or "json" in kind or "html" in kind else Streamed(done_due=done_due)
