"""The last lines of a server's log say why it would not start; they are also hostile text.

They go to a terminal and into a report: escape sequences and control characters are taken
out, the length is capped, and what the environment keeps secret does not come back through a
server that prints its settings.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from kvstress.core.words import cap

_TAIL_BYTES = 16_384
_LINE_CHARACTERS = 240
_ESCAPE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|.)?")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_SECRET_NAME = re.compile(r"KEY|TOKEN|SECRET|PASS|CREDENTIAL|AUTH", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Secrets:
    """Values that must not be shown, with the names that are shown in their place."""

    names: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, inherited: Mapping[str, str], given: Mapping[str, str]) -> "Secrets":
        """Variables named like a secret, and long enough values among those `given` for this server."""
        named = {n: v for n, v in {**inherited, **given}.items() if _SECRET_NAME.search(n) and len(v) >= 4}
        longer = {n: v for n, v in given.items() if len(v) >= 8}
        # The longest first: a short secret may be part of a long one, whose rest would then stay.
        return cls(tuple(sorted({**longer, **named}.items(), key=lambda item: (-len(item[1]), item[0]))))

    def hide(self, text: str) -> str:
        """`text` with `<NAME>` where a secret stood."""
        for name, value in self.names:
            text = text.replace(value, f"<{name}>")
        return text


def clean(text: str, secrets: Secrets) -> str:
    """One line of `text` that is safe to show: no control characters, no secrets, capped."""
    return cap(_CONTROL.sub("", secrets.hide(_ESCAPE.sub("", text))).strip(), _LINE_CHARACTERS)


def tail(path: Path, since: int, secrets: Secrets, lines: int = 12) -> str:
    """The last `lines` non-empty lines of the log after byte `since`, joined by ` | `; "" when there are none."""
    try:
        with path.open("rb") as log:
            size = log.seek(0, 2)
            start = max(since, size - _TAIL_BYTES)
            log.seek(start)
            text = log.read(_TAIL_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""
    whole = text.splitlines() if start == since else text.splitlines()[1:]
    shown = (clean(line, secrets) for line in whole)
    return " | ".join([line for line in shown if line][-lines:])
