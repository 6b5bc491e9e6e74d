"""Server-sent events from bytes, whole or in pieces, without knowing what is in them.

The usual decoder works on text lines and so decodes every byte twice, builds an object per line, and hides a cut
through a character behind the text layer. This one splits bytes and hands over each payload as it stood
on the wire: JSON is decoded once, straight from it. What it gives does not depend on where the network cut
the stream. Rules are those of the HTML standard's "event stream interpretation", with two additions
that servers made necessary: a field named `error`, which some send for a failure in mid-stream, and the
unterminated last event, which `end()` hands over because `data: [DONE]` often comes without its blank line.
"""

from typing import Final, NamedTuple

BOM: Final = b"\xef\xbb\xbf"
LONGEST_LINE: Final = 16 << 20


class Named(NamedTuple):
    """An event that is more than its payload: `name` is its event name, or "error" for a field of that name."""

    name: str
    data: bytes


Event = bytes | Named


class LineTooLongError(ValueError):
    """A line, or the joined data of one event, is longer than the decoder was told to hold."""


class Decoder:
    """Feed it bytes, take events. Holds at most `longest` bytes of a line or an event."""

    __slots__ = (
        "_after_cr",
        "_data",
        "_held",
        "_held_size",
        "_longest",
        "_more",
        "_more_size",
        "_name",
        "_plain",
        "_started",
    )

    def __init__(self, longest: int = LONGEST_LINE) -> None:
        self._longest = longest
        self._held: list[bytes] = []
        self._held_size = 0
        self._data: bytes | None = None  # the present event's first data line, and in `_more` the others
        self._more: list[bytes] = []
        self._more_size = 0
        self._name = ""
        self._plain = True  # no name and no second data line: what nearly every event is
        self._after_cr = False
        self._started = False

    def feed(self, data: bytes) -> list[Event]:
        """The events that `data` completes, in order. Raises LineTooLongError."""
        size = len(data)
        # Nearly every read is one whole event of one line, and needs none of what follows.
        one = data[:6] == b"data: " and data[-2:] == b"\n\n" and data.find(b"\n") == size - 2
        if one and b"\r" not in data and self._idle(size):
            self._started = True
            return [data[6:-2]]
        if self._after_cr or b"\r" in data:
            data = self._without_cr(data)
        lines = data.split(b"\n")
        rest = lines.pop()
        events: list[Event] = []
        if lines:
            self._lines(lines, events)
        if rest:
            self._hold(rest)
        return events

    def _idle(self, size: int) -> bool:
        """Nothing is held, no event is begun, and one of `size` bytes may be."""
        return self._plain and self._data is None and not self._held and not self._after_cr and size <= self._longest

    def _lines(self, lines: list[bytes], events: list[Event]) -> None:
        lines[0] = self._release(lines[0])
        if sum(map(len, lines)) > self._longest:
            self._check(max(map(len, lines)))
        for line in lines:
            # The two lines that nearly every event consists of are dealt with here, without a call.
            if line[:6] == b"data: " and self._data is None:
                self._data = line[6:]
                self._started = True
            elif not line and self._plain and self._data is not None:
                events.append(self._data)
                self._data = None
            else:
                self._line(line, events)

    def end(self) -> list[Event]:
        """What an ended stream left unterminated: no blank line, or not even a newline, after the last event."""
        events: list[Event] = []
        if self._held:
            self._line(self._release(b""), events)
        self._line(b"", events)
        return events

    def _without_cr(self, data: bytes) -> bytes:
        """CR and CRLF as LF. A CR that ends a piece is a newline at once; the LF that may follow it is then dropped."""
        if self._after_cr and data[:1] == b"\n":
            data = data[1:]
            self._after_cr = False
        if data:
            self._after_cr = data[-1:] == b"\r"
        return data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")

    def _hold(self, piece: bytes) -> None:
        # Pieces of a line stay apart until its end: joining at each read would cost the square of the line's length.
        self._held_size += len(piece)
        self._check(self._held_size)
        self._held.append(piece)

    def _release(self, end: bytes) -> bytes:
        if not self._held:
            return end
        whole = b"".join((*self._held, end))
        self._held = []
        self._held_size = 0
        return whole

    def _check(self, size: int) -> None:
        if size > self._longest:
            raise LineTooLongError(f"a line or event of more than {self._longest:,} bytes")

    def _line(self, line: bytes, events: list[Event]) -> None:
        if not self._started:
            self._started = True
            line = line.removeprefix(BOM)
        if not line:
            self._dispatch(events)
            return
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"data":
            self._add(value)
        elif field == b"event":
            self._name = value.decode("utf-8", "replace")
            self._plain = False
        elif field == b"error":
            events.append(Named("error", value))

    def _add(self, value: bytes) -> None:
        if self._data is None:
            self._data = value
            return
        self._plain = False
        self._more.append(value)
        self._more_size += len(value) + 1
        self._check(self._more_size + len(self._data))

    def _dispatch(self, events: list[Event]) -> None:
        if self._data is not None:
            data = b"\n".join((self._data, *self._more)) if self._more else self._data
            events.append(Named(self._name, data) if self._name else data)
        self._data = None
        self._more = []
        self._more_size = 0
        self._name = ""
        self._plain = True
