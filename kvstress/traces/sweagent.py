"""SWE-agent: what a coding agent asked at each step of its trajectory, and SWE-smith's rows of whole conversations."""

from collections.abc import Iterator, Mapping
from typing import BinaryIO

from kvstress.traces.conversations import turns
from kvstress.traces.row import Notes, Row, items, lines, messages

_STEP = ("response", "thought", "action", "observation", "state", "query", "messages", "execution_time", "extra_info")


def read(file: BinaryIO, notes: Notes) -> Iterator[Row]:
    """Rows of a `.traj` document: each step's `query` (before 1.1.0: `messages`) is the whole history."""
    notes.told |= {"history": "cumulative", "answers": "as recorded"}
    for number, step in enumerate(items(file, "trajectory.item", notes), start=1):
        if not isinstance(step, Mapping):
            notes.refuse(number, "expected a JSON object")
        notes.keys(step, _STEP)
        asked = step.get("query") or step.get("messages")
        yield Row(number=number, messages=messages(asked, number, notes), whole=True)


def read_lines(file: BinaryIO, notes: Notes) -> Iterator[Row]:
    """Rows of SWE-smith's JSON lines, whose `messages` is a conversation as JSON text."""
    notes.told |= {"history": "delta (cut from whole conversations)", "answers": "as recorded"}
    for number, record in lines(file, notes):
        notes.keys(record, ("messages", "instance_id", "traj_id"))
        session = str(record.get("traj_id") or record.get("instance_id") or number)
        yield from turns(record.get("messages"), session, number, notes)
