"""What a planted defect is given: its parameters, the hooks to take hold of, and a log to say when it fired.

The log is for people and for tests of detectors; a detector that reads it has cheated.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from time import time
from typing import Any

from kvstress.refserver.engine import Engine
from kvstress.refserver.hooks import Call, Hooks
from kvstress.refserver.scheduler import Scheduler


class DefectError(ValueError):
    """A --defect that does not exist or has a wrong parameter; one sentence for the user."""


@dataclass(slots=True, kw_only=True)
class Site:
    """Where one defect is planted. `variant` is the first bare word after the colon, `healthy` for the twin."""

    name: str
    variant: str
    numbers: dict[str, float]
    engine: Engine
    log: Callable[[dict[str, Any]], None]
    _seen: int = field(default=0)

    @property
    def healthy(self) -> bool:
        """Is this the twin that only looks like the defect?"""
        return self.variant == "healthy"

    @property
    def hooks(self) -> Hooks:
        """The hooks of the server."""
        return self.engine.scheduler.hooks

    @property
    def scheduler(self) -> Scheduler:
        """For hooks that run on the engine's thread."""
        return self.engine.scheduler

    def number(self, name: str, default: float) -> float:
        """A parameter such as every=3."""
        return self.numbers.get(name, default)

    def turn(self) -> bool:
        """Is it this one's turn? Counts what could have been hit, and picks each `every`-th (default 3)."""
        self._seen += 1
        return self._seen % max(1, int(self.number("every", 3))) == 0

    def fired(self, request: int | Call | None = None, detail: str = "") -> None:
        """Write to the log. A call is known by its number and its x-request-id, a sequence by its number."""
        entry: dict[str, Any] = {"time": time(), "defect": self.name, "variant": self.variant, "detail": detail}
        if isinstance(request, Call):
            headers = dict(request.scope.get("headers", []))
            entry |= {"request": request.number, "id": headers.get(b"x-request-id", b"").decode("latin-1") or None}
        else:
            entry["request"] = request
        self.log(entry)


def debug_log(path: str | None) -> Callable[[dict[str, Any]], None]:
    """A log of one JSON object a line, flushed as written; nowhere without a path."""
    if path is None:
        return lambda entry: None
    stream = Path(path).open("a", encoding="utf-8")  # noqa: SIM115 - as long as the server lives

    def write(entry: dict[str, Any]) -> None:
        stream.write(json.dumps(entry) + "\n")
        stream.flush()

    return write
