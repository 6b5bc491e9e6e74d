"""What the user says of a trace where its format leaves it open, or the file is not as its format says.

A short trace may show neither that its rows are cumulative nor that they are not, and a trace in Mooncake's form may
have been written with another block size: both can then be declared, and the rows are taken at that word.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Literal

from kvstress.traces.row import Row

History = Literal["delta", "cumulative"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    """`history` of rows with messages, `block` in tokens of rows with block ids; None leaves it to the format."""

    history: History | None = None
    block: int | None = None

    def told(self) -> dict[str, str]:
        """What was declared, in the words in which an import tells what was detected."""
        history = {} if self.history is None else {"history": f"{self.history} (declared)"}
        return history | ({} if self.block is None else {"block size": f"{self.block} tokens (declared)"})

    def rows(self, rows: Iterable[Row]) -> Iterator[Row]:
        """`rows`, each as declared. What a format cut out of a whole conversation itself stays new messages."""
        for row in rows:
            whole = row.whole if self.history is None or row.whole is False else self.history == "cumulative"
            yield replace(row, whole=whole, block=self.block or row.block if row.blocks else row.block)
