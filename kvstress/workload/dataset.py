"""Reads prepared dataset files, rows as they are: whoever prepared them decided the bytes, and we send those bytes.

Two preparation tools exist, one that writes parquet with `turns` and one that writes JSON lines with
`messages`; both kinds are read. Rows that a preparation left unresolved are kept here and refused
where they would be sent, so that a file is usable when only rows of another category are unresolved.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from io import BytesIO
from typing import Any

import msgspec

from kvstress.core.errors import UsageError
from kvstress.workload.body import Messages, user

# Unresolved rows begin with this and go on with instructions, so comparing whole texts would miss them.
PLACEHOLDER = "FULL BENCHMARK DATA SHOULD BE FETCHED FROM THE SOURCE"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One prompt. `number` counts from 1, as editors count lines; `turns` is how many user turns the row had."""

    number: int
    category: str | None
    messages: Messages
    turns: int = 1

    @property
    def sha256(self) -> str:
        """sha256 of the prompt's text: of the one message's content, or of all contents joined by newlines."""
        return sha256("\n".join(message["content"] for message in self.messages).encode()).hexdigest()

    @property
    def unresolved(self) -> bool:
        """Whether any message is still the placeholder that the published file has in its place."""
        return any(message["content"].startswith(PLACEHOLDER) for message in self.messages)


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFile:
    """A file's rows in their order; `name` is what messages call it, `sha256` is over its bytes."""

    name: str
    sha256: str
    rows: tuple[Row, ...]

    @property
    def base(self) -> str:
        """The name without its folder, which is what two machines have in common."""
        return self.name.replace("\\", "/").rpartition("/")[2]


def read(name: str, content: bytes) -> DataFile:
    """The rows of `content`, parquet or JSON lines by its first bytes. Raises UsageError naming file and row."""
    if not content.strip():
        raise UsageError(f"{name} is empty: expected one JSON object per line, or parquet")
    records = _parquet(name, content) if content.startswith(b"PAR1") else _json_lines(name, content)
    rows = tuple(_row(name, number, record) for number, record in records)
    if not rows:
        raise UsageError(f"{name} has no rows")
    return DataFile(name=name, sha256=sha256(content).hexdigest(), rows=rows)


def _json_lines(name: str, content: bytes) -> Iterator[tuple[int, Any]]:
    for number, line in enumerate(content.split(b"\n"), start=1):
        if not line.strip():
            continue
        try:
            yield number, msgspec.json.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise UsageError(f"{name} row {number}: not valid JSON ({error})") from error


def _parquet(name: str, content: bytes) -> Iterator[tuple[int, Any]]:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError as error:
        raise UsageError(f"{name} is parquet, which needs pyarrow: install kvstress[parquet], or use .jsonl") from error
    try:
        source = parquet.ParquetFile(BytesIO(content))
        wanted = [column for column in ("category", "messages", "turns") if column in source.schema_arrow.names]
        records = source.read(columns=wanted).to_pylist()
    except (pyarrow.ArrowException, OSError) as error:
        raise UsageError(f"{name}: not readable parquet ({error})") from error
    yield from enumerate(records, start=1)


def _row(name: str, number: int, record: Any) -> Row:
    where = f"{name} row {number}"
    if not isinstance(record, Mapping):
        raise UsageError(f"{where}: expected a JSON object, got {type(record).__name__}")
    category = record.get("category")
    if category is not None and not isinstance(category, str):
        raise UsageError(f"{where}: category: expected text, got {type(category).__name__}")
    if record.get("messages") is not None:
        return Row(number=number, category=category, messages=_messages(where, record["messages"]))
    if record.get("turns") is not None:
        turns = _turns(where, record["turns"])
        return Row(number=number, category=category, messages=user(turns[0]), turns=len(turns))
    raise UsageError(f"{where}: no prompt: expected messages or turns")


def _messages(where: str, given: Any) -> Messages:
    if not isinstance(given, list) or not given:
        raise UsageError(f"{where}: messages: expected a non-empty list")
    for place, message in enumerate(given):
        texts = [message.get("role"), message.get("content")] if isinstance(message, Mapping) else [None]
        if not all(isinstance(text, str) and text for text in texts):
            raise UsageError(f"{where}: messages[{place}]: expected role and content, both non-empty text")
    return tuple(given)


def _turns(where: str, given: Any) -> list[str]:
    turns = [given] if isinstance(given, str) else given
    if not isinstance(turns, list) or not turns or not all(isinstance(turn, str) and turn for turn in turns):
        raise UsageError(f"{where}: turns: expected a non-empty list of non-empty text")
    return turns
