"""Mooncake's traces, and aiperf's superset of them: block hashes of 512 tokens, or text, or whole payloads."""

from collections.abc import Iterator
from typing import Any, BinaryIO

from kvstress.traces.row import Notes, Row, blocks, count, lines, messages, request, seconds

_BLOCK, _MS = 512, 1000.0
_PROMPTS = ("input_length", "text_input", "messages", "payload")
_KNOWN = (*_PROMPTS, "output_length", "hash_ids", "timestamp", "delay", "session_id", "tools", "extra")


def read(file: BinaryIO, notes: Notes) -> Iterator[Row]:
    """Rows of JSON lines; times are milliseconds, `hash_ids` are global and of 512 tokens."""
    notes.told |= {"times": "milliseconds", "block size": f"{_BLOCK} tokens", "hash scope": "whole file"}
    for number, record in lines(file, notes):
        notes.keys(record, _KNOWN)
        given = [name for name in _PROMPTS if record.get(name) is not None]
        if len(given) != 1:
            notes.refuse(number, f"no prompt: expected exactly one of {', '.join(_PROMPTS)}, got {len(given)}")
        session = record.get("session_id")
        yield Row(
            number=number,
            session=None if session is None else str(session),
            at=seconds(record.get("timestamp"), per=_MS),
            think=seconds(record.get("delay"), per=_MS) or 0.0,
            **{"max_tokens": count(record.get("output_length")), **_prompt(given[0], record, number, notes)},
        )


def _prompt(kind: str, record: dict[str, Any], number: int, notes: Notes) -> dict[str, Any]:
    if kind == "payload":
        found = request(record["payload"], number, notes)
        return found if found["max_tokens"] else {key: found[key] for key in ("messages", "whole", "asked")}
    if kind == "text_input":
        if not isinstance(record["text_input"], str) or not record["text_input"]:
            notes.refuse(number, "no prompt: text_input is not text")
        return {"messages": ({"role": "user", "content": record["text_input"]},)}
    if kind == "messages":
        asked = {"tools": record["tools"]} if record.get("tools") else {}
        return {"messages": messages(record["messages"], number, notes), "asked": asked}
    tokens = count(record["input_length"])
    if tokens is None:
        notes.refuse(number, "no prompt: input_length is not a number above 0")
    return {"tokens": tokens, "blocks": blocks(record.get("hash_ids"), number, notes), "block": _BLOCK}
