"""Recorded requests: logs of OpenAI bodies, and the HAR files that browsers and proxies write.

Only the body of a request is read. Headers, cookies and query strings hold keys, so they are not even looked at.
"""

from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO
from urllib.parse import urlsplit

from kvstress.traces.row import ASKED, Notes, Row, items, lines, request, unix

_TIMES = ("timestamp", "created", "time")
_WRAPPED = ("body", "request", "payload")
_SESSIONS = ("session_id", "conversation_id")
_KNOWN = (*_WRAPPED, *_TIMES, *_SESSIONS, "request_id", "custom_id", "method", "url", "headers", "completion_tokens")
_BODY = ("messages", "prompt", "model", "max_tokens", "max_completion_tokens", "stream", *ASKED)


def read(file: BinaryIO, notes: Notes) -> Iterator[Row]:
    """Rows of JSON lines, each a request body or an object with one in `body`, `request` or `payload`."""
    notes.told |= {"history": "cumulative where a prompt begins with an earlier one", "times": "Unix or ISO 8601"}
    for number, record in lines(file, notes):
        body = next((record[key] for key in _WRAPPED if record.get(key) is not None), None)
        if body is None:
            body = {key: value for key, value in record.items() if key not in _KNOWN}
        else:
            notes.keys(record, _KNOWN)
        at = next((unix(record[key]) for key in _TIMES if record.get(key) is not None), None)
        session = next((str(record[key]) for key in _SESSIONS if record.get(key) is not None), None)
        yield Row(number=number, session=session, at=at, **request(body, number, notes))


def read_har(file: BinaryIO, notes: Notes) -> Iterator[Row]:
    """Rows of `log.entries`: each POST to an address that ends in /completions. `number` is the entry's place."""
    notes.told |= {"history": "cumulative where a prompt begins with an earlier one", "times": "ISO 8601"}
    for number, entry in enumerate(items(file, "log.entries.item", notes), start=1):
        asked = entry.get("request") if isinstance(entry, Mapping) else None
        if not isinstance(asked, Mapping) or not _completes(asked):
            notes.left_out["no completion request"] += 1
            continue
        posted = asked.get("postData")
        text = posted.get("text") if isinstance(posted, Mapping) else None
        yield Row(number=number, at=unix(entry.get("startedDateTime")), **request(text, number, notes))


def _completes(asked: Mapping[str, Any]) -> bool:
    path = urlsplit(str(asked.get("url", ""))).path
    return str(asked.get("method", "")).upper() == "POST" and path.rstrip("/").endswith("/completions")
