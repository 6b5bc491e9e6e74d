"""Lists of whole conversations: ShareGPT (`conversations` of from and value) and vLLM multi-turn (`messages`).

A conversation is as many requests as it has user turns; what the assistant said then is part of the next one's prompt.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO

from kvstress.traces.row import Notes, Row, items

_ROLES = {
    "human": "user", "user": "user", "gpt": "assistant", "chatgpt": "assistant", "bing": "assistant",
    "bard": "assistant", "assistant": "assistant", "system": "system", "tool": "tool",
}  # fmt: skip
_KNOWN = ("id", "conversations", "messages", "num_round", "num_tokens")
# A turn that asks; what stands between two of them came from the model.
_ASKS = ("user", "tool")


def read(file: BinaryIO, notes: Notes) -> Iterator[Row]:
    """Rows of a JSON list of conversations, one for each turn that asks. `number` is the conversation's place."""
    notes.told |= {"history": "delta (cut from whole conversations)", "answers": "as recorded"}
    for number, record in enumerate(items(file, "item", notes), start=1):
        if not isinstance(record, Mapping):
            notes.refuse(number, "expected a JSON object")
        notes.keys(record, _KNOWN)
        given = record.get("conversations") if "conversations" in record else record.get("messages")
        yield from turns(given, str(record.get("id", number)), number, notes)


def turns(given: Any, session: str, number: int, notes: Notes) -> Iterator[Row]:
    """The rows of one conversation, given as a list of messages in either spelling, or as its JSON text."""
    if isinstance(given, str):
        try:
            given = json.loads(given)
        except ValueError:
            notes.refuse(number, "messages is text that is not JSON")
    if not isinstance(given, list) or not given:
        notes.refuse(number, "no prompt: expected a list of messages")
    new: list[Mapping[str, Any]] = []
    asked = False
    for place, one in enumerate(given):
        new.append(_message(one, number, notes))
        following = given[place + 1] if place + 1 < len(given) else None
        if new[-1]["role"] in _ASKS and _role(following) not in _ASKS:
            yield Row(number=number, session=session, messages=tuple(new), whole=False)
            new, asked = [], True
    if not asked:
        notes.refuse(number, "no prompt: nobody asks in this conversation")


def _role(one: Any) -> str | None:
    said = one.get("from", one.get("role")) if isinstance(one, Mapping) else None
    return _ROLES.get(str(said))


def _message(one: Any, number: int, notes: Notes) -> Mapping[str, Any]:
    role = _role(one)
    if role is None:
        said = one.get("from", one.get("role")) if isinstance(one, Mapping) else type(one).__name__
        notes.refuse(number, f"a message of nobody known: {str(said)[:40]!r}")
    if "value" in one:
        return {"role": role, "content": str(one["value"])}
    kept = ("content", "tool_calls", "tool_call_id", "name")
    return {"role": role, **{key: one[key] for key in kept if one.get(key) is not None}}
