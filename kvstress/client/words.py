"""The server's own words, dug out of the many envelopes in which servers put them.

A failure is recognised again by what the server said, so the words are found wherever they stand, whole, and
are never interpreted here, with one exception: whether a refusal speaks of length. That decides
between "the prompt does not fit", which a healthy server may say, and any other 4xx.
"""

import html
import re
from http import HTTPStatus

import msgspec

from kvstress.client.shapes import JSON
from kvstress.core.outcome import Kind
from kvstress.core.words import cap

_TITLE = re.compile(r"<title[^>]*>(.*?)</title>", re.IGNORECASE | re.DOTALL)
_TAG = re.compile(r"<(?:script|style)\b.*?</(?:script|style)>|<[^>]*>", re.IGNORECASE | re.DOTALL)

_LENGTH = re.compile(
    r"""context[ _-]?(?:length|size|window|limit)
    | (?:model|sequence|input|prompt|request|message)s?[ _-]?(?:length|len)\b
    | max(?:imum)?[ _-](?:model|context|input|sequence|seq|total|prompt)[ _-](?:len|length|tokens|size)
    | too[ ](?:long|large|many[ ](?:input[ ]|prompt[ ])?tokens)
    | exceed\w*[ ](?:[\w`']+[ ]){0,6}(?:tokens?|length|context|limit)
    | tokens?\W+(?:[\w()]+\W+){0,6}exceed
    | longer[ ]than
    | reduce[ ]the[ ]length
    | shorten[ ](?:the|your)[ ](?:prompt|input|messages?)
    | inputs`?[ ]tokens[ ]\+""",
    re.IGNORECASE | re.VERBOSE,
)
# Statuses whose words may speak of tokens or length without meaning the prompt: credentials, quotas, names, long heads.
_NOT_ABOUT_LENGTH = frozenset({401, 402, 403, 404, 405, 407, 408, 414, 429, 431})


def readable(raw: bytes) -> str:
    """`raw` for a person: decoded with replacement, capped."""
    return cap(raw.decode("utf-8", "replace"))


def spoken(failure: JSON, depth: int = 8) -> str | None:
    """The words in an error value of any shape, looked for `depth` levels down; None when it holds none."""
    if isinstance(failure, dict) and depth:
        inner = next((failure[key] for key in ("message", "error", "detail", "msg") if failure.get(key)), None)
        if inner is not None:
            return spoken(inner, depth - 1)
    if isinstance(failure, list) and depth:
        return cap("; ".join(words for item in failure if (words := spoken(item, depth - 1)))) or None
    if isinstance(failure, str):
        return cap(failure) or None
    return cap(msgspec.json.encode(failure).decode()) if failure else None


def words_in(raw: bytes) -> str | None:
    """What an error body says: the words of a JSON envelope, the title or text of a page, plain text as it is."""
    try:
        value: JSON = msgspec.json.decode(raw)
    except (msgspec.DecodeError, RecursionError):
        return _text_in(readable(raw))
    return spoken(value)


def _text_in(text: str) -> str | None:
    if "<" in text and re.match(r"\s*(?:<!--.*?-->\s*)*<(?:!doctype|html|head|body)", text, re.IGNORECASE | re.DOTALL):
        title = _TITLE.search(text)
        text = html.unescape(title[1] if title else _TAG.sub(" ", text))
    return " ".join(text.split()) or None


def kind_of_status(status: int, said: str, retry_after: str | None) -> Kind:
    """The kind of an answer whose status is not 200. `said` is the error as it stood on the wire.

    429 is load shedding only with Retry-After, like 503: without it nobody was told to come back.
    """
    if status in (HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE) and retry_after is not None:
        return Kind.OVERLOADED
    if 500 <= status <= 599:
        return Kind.SERVER_ERROR
    if not 400 <= status <= 499:
        return Kind.UNEXPECTED_STATUS
    speaks_of_length = status not in _NOT_ABOUT_LENGTH and _LENGTH.search(said) is not None
    too_long = status == HTTPStatus.REQUEST_ENTITY_TOO_LARGE or speaks_of_length
    return Kind.TOO_LONG if too_long else Kind.CLIENT_ERROR
