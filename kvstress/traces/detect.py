"""Which format a file is in, from the keys of its first object; what cannot be told from those is asked for."""

from collections.abc import Callable, Iterator
from io import BytesIO
from typing import BinaryIO

import ijson

from kvstress.core.errors import UsageError
from kvstress.traces import (
    bailian,
    burstgpt,
    conversations,
    mooncake,
    otel,
    requests,
    sweagent,
    weka,
)
from kvstress.traces.row import Notes, Row

Reader = Callable[[BinaryIO, Notes], Iterator[Row]]
FORMATS: dict[str, Reader] = {
    "mooncake": mooncake.read,
    "sharegpt": conversations.read,
    "vllm-multi-turn": conversations.read,
    "swe-agent": sweagent.read,
    "swe-smith": sweagent.read_lines,
    "openai": requests.read,
    "har": requests.read_har,
    "otel": otel.read,
    "burstgpt": burstgpt.read,
    "bailian": bailian.read,
    "weka": weka.read,
}
HEAD = 65_536


def detected(head: bytes, name: str) -> str:
    """The format of a file that begins with `head`. Raises UsageError where that does not tell it."""
    if head.startswith(b"\x1f\x8b"):
        raise UsageError(f"{name} is compressed: unpack it first (gunzip)")
    if b"Request tokens" in head.partition(b"\n")[0]:
        return "burstgpt"
    listed, keys = _keys(head)
    found = _of_list(keys) if listed else _of_object(keys)
    if found is None:
        there = ", ".join(sorted(keys)[:8]) or "nothing that reads as JSON"
        raise UsageError(f"{name}: the format is not known from its keys ({there}): name one of {', '.join(FORMATS)}")
    return found


def _of_list(keys: dict[str, str]) -> str | None:
    if "conversations" in keys:
        return "sharegpt"
    return "vllm-multi-turn" if "messages" in keys else None


def _of_object(keys: dict[str, str]) -> str | None:
    if keys.get("filetype") == "string":
        raise UsageError("this file says how to generate conversations and holds none: generate them first")
    rules: tuple[tuple[str, bool], ...] = (
        ("har", "log" in keys),
        ("otel", "spans" in keys or "resourceSpans" in keys),
        ("swe-agent", "trajectory" in keys),
        ("weka", "requests" in keys and ("block_size" in keys or "hash_id_scope" in keys)),
        ("bailian", "chat_id" in keys),
        ("mooncake", bool({"input_length", "hash_ids", "text_input", "payload"} & set(keys))),
        ("swe-smith", keys.get("messages") == "string"),
        ("mooncake", "session_id" in keys and "messages" in keys and "model" not in keys),
        ("openai", bool({"messages", "prompt", "body", "request"} & set(keys))),
    )
    return next((name for name, holds in rules if holds), None)


def _keys(head: bytes) -> tuple[bool, dict[str, str]]:
    """Whether the file is a list, and the keys of its first object with the JSON type of each value."""
    found: dict[str, str] = {}
    listed, depth, key = False, 0, ""
    try:
        for event, value in ijson.basic_parse(BytesIO(head), multiple_values=True):
            if event == "start_array" and depth == 0 and not listed:
                listed = True
                continue
            if event == "map_key" and depth == 1:
                key = str(value)
            elif depth == 1 and key and event not in ("end_map", "end_array"):
                found.setdefault(key, event)
                key = ""
            depth += event.startswith("start") - event.startswith("end")
            if event == "end_map" and depth == 0:
                break
    except ijson.JSONError:
        pass  # the head is cut off: what was read until then counts
    return listed, found
