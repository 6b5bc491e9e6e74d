"""BurstGPT: a CSV of lengths and times, without text; a response of 0 tokens was a failure there and is left out."""

import csv
from collections.abc import Iterator
from typing import BinaryIO

from kvstress.traces.row import Notes, Row, count, seconds

_KNOWN = (
    "Timestamp", "Session ID", "Elapsed time", "Model", "Request tokens", "Response tokens", "Total tokens", "Log Type",
)  # fmt: skip


def read(file: BinaryIO, notes: Notes) -> Iterator[Row]:
    """Rows of the CSV; times are seconds. The older file has no sessions."""
    notes.told |= {"times": "seconds", "text": "none in the trace: each prompt is generated at its length"}
    table = csv.DictReader(line.decode("utf-8", "replace") for line in file)
    notes.keys(dict.fromkeys(table.fieldnames or ()), _KNOWN)
    for record in table:
        number = table.line_num
        if count(record.get("Response tokens")) is None:
            notes.left_out["failed in the trace (no response tokens)"] += 1
            continue
        tokens = count(record.get("Request tokens"))
        if tokens is None:
            notes.refuse(number, "no prompt: expected Request tokens")
        yield Row(
            number=number,
            session=record.get("Session ID") or None,
            at=seconds(record.get("Timestamp")),
            tokens=tokens,
            max_tokens=count(record.get("Response tokens")),
        )
