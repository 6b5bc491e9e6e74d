"""Six outcomes, because success and failure are not enough for a thing that crosses a network.

LOST means nobody knows: our own deadline passed, or we were killed. BROKEN means the server
was seen to misbehave on the wire, which a load tester that only reads status codes counts
as a success when it happens after a 200.
"""

from enum import StrEnum


class Outcome(StrEnum):
    """What became of one request."""

    COMPLETED = "completed"
    REFUSED = "refused"
    FAILED = "failed"
    BROKEN = "broken"
    LOST = "lost"
    CANCELLED = "cancelled"


class Kind(StrEnum):
    """Why, taken from the transport's own cause. Each kind belongs to one outcome: see `OUTCOME_OF`."""

    OK = "ok"
    CLIENT_ERROR = "client-error"
    TOO_LONG = "too-long"
    OVERLOADED = "overloaded"
    SERVER_ERROR = "server-error"
    ERROR_ENVELOPE = "error-envelope"
    CONNECTION_REFUSED = "connection-refused"
    CONNECT_FAILED = "connect-failed"
    TLS = "tls"
    NO_RESPONSE = "no-response"
    RESET = "reset"
    SHORT_BODY = "short-body"
    TRUNCATED_CHUNK = "truncated-chunk"
    PROTOCOL = "protocol"
    MALFORMED = "malformed"
    STREAM_ERROR = "stream-error"
    MISSING_FINISH = "missing-finish-reason"
    MISSING_DONE = "missing-done"
    OVERSIZE_ANSWER = "oversize-answer"
    UNEXPECTED_STATUS = "unexpected-status"
    DEADLINE = "deadline"
    KILLED = "killed"
    CANCELLED = "cancelled"


OUTCOME_OF: dict[Kind, Outcome] = {
    Kind.OK: Outcome.COMPLETED,
    Kind.CLIENT_ERROR: Outcome.REFUSED,
    Kind.TOO_LONG: Outcome.REFUSED,
    Kind.OVERLOADED: Outcome.REFUSED,
    Kind.SERVER_ERROR: Outcome.FAILED,
    Kind.ERROR_ENVELOPE: Outcome.FAILED,
    Kind.CONNECTION_REFUSED: Outcome.BROKEN,
    Kind.CONNECT_FAILED: Outcome.BROKEN,
    Kind.TLS: Outcome.BROKEN,
    Kind.NO_RESPONSE: Outcome.BROKEN,
    Kind.RESET: Outcome.BROKEN,
    Kind.SHORT_BODY: Outcome.BROKEN,
    Kind.TRUNCATED_CHUNK: Outcome.BROKEN,
    Kind.PROTOCOL: Outcome.BROKEN,
    Kind.MALFORMED: Outcome.BROKEN,
    Kind.STREAM_ERROR: Outcome.BROKEN,
    Kind.MISSING_FINISH: Outcome.BROKEN,
    Kind.MISSING_DONE: Outcome.BROKEN,
    Kind.OVERSIZE_ANSWER: Outcome.BROKEN,
    Kind.UNEXPECTED_STATUS: Outcome.BROKEN,
    Kind.DEADLINE: Outcome.LOST,
    Kind.KILLED: Outcome.LOST,
    Kind.CANCELLED: Outcome.CANCELLED,
}
