"""Weka's kv-cache-tester: one JSON document per conversation, with hashes of its own blocks and sub-agents inside."""

from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO

from kvstress.traces.row import Notes, Row, blocks, count, items, seconds

_BLOCK = 64
_TOP = ("id", "models", "block_size", "hash_id_scope", "tool_tokens", "system_tokens", "requests", "totals")
_REQUEST = (
    "t", "type", "model", "in", "out", "hash_ids", "input_types", "output_types", "stop", "api_time", "think_time",
    "ttft",
)  # fmt: skip
_AGENT = (
    "t", "type", "agent_id", "subagent_type", "duration_ms", "total_tokens", "tool_use_count", "status", "requests",
    "models", "tool_tokens", "system_tokens",
)  # fmt: skip


def read(file: BinaryIO, notes: Notes) -> Iterator[Row]:
    """Rows of each document in the file, sub-agents as sessions of their own. `number` counts its requests.

    `hash_id_scope` "local" means that equal ids of two conversations are different blocks.
    """
    notes.told |= {"times": "seconds", "history": "cumulative (each request names all its blocks)"}
    for place, record in enumerate(items(file, "", notes), start=1):
        if not isinstance(record, Mapping):
            notes.refuse(place, "expected a JSON object")
        notes.keys(record, _TOP)
        block = count(record.get("block_size")) or _BLOCK
        name = str(record.get("id", place))
        local = record.get("hash_id_scope", "local") == "local"
        notes.told |= {"block size": f"{block} tokens", "hash scope": "conversation" if local else "whole file"}
        yield from _rows(record, name, name if local else "", block, notes)


def _rows(record: Mapping[str, Any], session: str, scope: str, block: int, notes: Notes) -> Iterator[Row]:
    for number, one in enumerate(record.get("requests") or (), start=1):
        if not isinstance(one, Mapping):
            notes.refuse(number, "expected a JSON object")
        if one.get("type") == "subagent":
            notes.keys(one, _AGENT)
            yield from _rows(one, f"{session}/{one.get('agent_id', number)}", scope, block, notes)
            continue
        notes.keys(one, _REQUEST)
        tokens = count(one.get("in"))
        if tokens is None:
            notes.refuse(number, f"no prompt: request {number} of conversation {session} has no input length")
        yield Row(
            number=number,
            session=session,
            at=seconds(one.get("t")),
            think=seconds(one.get("think_time")) or 0.0,
            tokens=tokens,
            max_tokens=count(one.get("out")),
            blocks=blocks(one.get("hash_ids"), number, notes),
            block=block,
            scope=scope,
        )
