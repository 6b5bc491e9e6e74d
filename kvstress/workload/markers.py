"""Planted facts: three lines a prompt that nobody could guess, and the question about one of them.

A fact is `The code for harbour is Q3… €.`; its code is a marker (`core/markers.py`), so the line serves two oracles:
an answer without the code has lost part of its own prompt, and one with another prompt's code has been given that.
Keys are common words, the same in many prompts, because a mixed-up page should answer with a *wrong* code, not with
none. The sign after it takes several bytes, which a stream must not lose between two chunks.
"""

from dataclasses import dataclass

from kvstress.core.markers import SLOTS, Markers
from kvstress.workload import draws

DEPTHS = (0.1, 0.5, 0.9)
_KEYS = ("harbour", "lantern", "meadow", "garden", "window", "bridge", "forest", "market", "winter", "silver")


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """The facts of one prompt. `lines` stand at `DEPTHS` of it; `asked` is the slot that the question is about."""

    number: int
    asked: int
    lines: tuple[str, ...]
    question: str

    @property
    def recipe(self) -> str:
        """What an oracle must know, as words of the recipe."""
        return f"markers={self.number} asks={self.asked}"


def facts(key: str, number: int) -> Facts:
    """The facts of prompt `number` of the run whose workload and seed are `key`; all prompts' are of equal shape."""
    words = draws.shuffled(f"{key}/{number}/keys", list(_KEYS))[:SLOTS]
    markers = Markers(key)
    asked = number % SLOTS
    return Facts(
        number=number,
        asked=asked,
        lines=tuple(f"The code for {word} is {markers.marker(number, slot)} €.\n" for slot, word in enumerate(words)),
        question=f"\nWhat is the code for {words[asked]}?",
    )


def planted(text: str, found: Facts) -> str:
    """`text` with the facts' lines put between its own lines at their depths."""
    lines = text.splitlines(keepends=True) or [text]
    if lines and not lines[-1].endswith("\n"):
        lines[-1] += "\n"
    for depth, line in sorted(zip(DEPTHS, found.lines, strict=True), reverse=True):
        lines.insert(int(len(lines) * depth), line)
    return "".join(lines)
