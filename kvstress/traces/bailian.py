"""qwen-bailian: chats that name their parent, with hashes of 16-token blocks and times in seconds."""

from collections.abc import Iterator
from typing import BinaryIO

from kvstress.traces.row import Notes, Row, blocks, count, lines, seconds

_BLOCK = 16
# Chats whose first ancestor is remembered; the child of one before those begins a session.
_REMEMBERED = 200_000
_KNOWN = ("chat_id", "parent_chat_id", "timestamp", "input_length", "output_length", "type", "turn", "hash_ids")


def read(file: BinaryIO, notes: Notes) -> Iterator[Row]:
    """Rows of JSON lines; a chat belongs to the session of its first ancestor (`parent_chat_id` -1)."""
    notes.told |= {"times": "seconds", "block size": f"{_BLOCK} tokens", "hash scope": "whole file"}
    roots: dict[str, str] = {}
    for number, record in lines(file, notes):
        notes.keys(record, _KNOWN)
        tokens = count(record.get("input_length"))
        if tokens is None:
            notes.refuse(number, "no prompt: expected input_length")
        chat, parent = str(record.get("chat_id")), str(record.get("parent_chat_id"))
        root = roots[chat] = roots.get(parent, chat)
        if len(roots) > _REMEMBERED:
            del roots[next(iter(roots))]
        yield Row(
            number=number,
            session=root,
            at=seconds(record.get("timestamp")),
            tokens=tokens,
            max_tokens=count(record.get("output_length")),
            blocks=blocks(record.get("hash_ids"), number, notes),
            block=_BLOCK,
        )
