"""A knob's values as a grid of exact numbers, each written the way the server wants to read it.

Units decide what a number means: `50G` is binary memory, `16k` decimal tokens, `0.85` a fraction.
Two ends in different units are refused, because whichever reading were chosen, half of the
people who type that mean the other.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

from kvstress.core.errors import UsageError

_MEMORY = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_TOKENS = {"k": 1_000, "m": 1_000_000}
_FIELD = re.compile(r"\{(\w+)\}")
_FIELDS = {"value": 1, "bytes": 1, "tokens": 1, **_MEMORY}
_KINDS = {"memory": "a memory size", "tokens": "a token count", "plain": "a plain number"}
# A grid beyond this is a typo in the resolution, and a posterior over it would not fit in memory.
VALUES_CAP = 1 << 24


@dataclass(frozen=True, slots=True, kw_only=True)
class Space:
    """Values `low`, `low` + `resolution`, …, `high`, by index from 0, in bytes, tokens or plain numbers.

    `suffix` and `scale` are of the unit in which people see them, `form` is the server's way of writing them, or "".
    """

    low: Fraction
    high: Fraction
    resolution: Fraction
    suffix: str = ""
    scale: int = 1
    form: str = ""

    @property
    def count(self) -> int:
        """How many values there are; the last step may be shorter than the others."""
        return -(-(self.high - self.low) // self.resolution) + 1

    def value(self, index: int) -> Fraction:
        """The value at `index`."""
        return min(self.low + index * self.resolution, self.high)

    def show(self, index: int) -> str:
        """The value for people and for names of files: `50G`, `16k`, `0.85`."""
        return f"{_plain(self.value(index) / self.scale)}{self.suffix}"

    def number(self, index: int) -> float:
        """The value in the unit in which it is shown, for an axis."""
        return float(self.value(index) / self.scale)

    def find(self, shown: str) -> int | None:
        """The index of a value as `show` wrote it; None when it is not on this grid."""
        value = _read(shown, "the value").value
        index = (value - self.low) / self.resolution
        if value == self.high:
            return self.count - 1
        inside = self.low <= value < self.high and index.denominator == 1
        return index.numerator if inside else None

    def text(self, index: int) -> str:
        """The value as the server gets it: by `form`, else memory as it is shown and all else as a bare number."""
        value = self.value(index)
        if self.form:
            return _FIELD.sub(lambda field: _plain(value / _FIELDS[field[1]]), self.form)
        return self.show(index) if self.suffix in _MEMORY else _plain(value)


def space(low: str, high: str, resolution: str | None = None, form: str | None = None) -> Space:
    """The grid between two typed values; without a `resolution`, one of their unit (0.01 for fractions).

    Raises UsageError in one sentence: not a number, two units, low not below high, nothing in between, a bad `form`.
    """
    typed = [_read(low, "--low"), _read(high, "--high")]
    if resolution is not None:
        typed.append(_read(resolution, "--resolution"))
    _one_kind(typed)
    finest = min(typed, key=lambda one: one.scale)
    step = typed[2].value if resolution is not None else _default_step(typed, finest.scale)
    _ordered(typed[0], typed[1], step)
    _check_form(form)
    made = Space(
        low=typed[0].value,
        high=typed[1].value,
        resolution=step,
        suffix=finest.unit,
        scale=finest.scale,
        form=form or "",
    )
    if made.count > VALUES_CAP:
        raise UsageError(f"--resolution gives {made.count:,} values from {low} to {high}: choose a coarser one")
    return made


@dataclass(frozen=True, slots=True, kw_only=True)
class _Typed:
    flag: str
    text: str
    value: Fraction
    unit: str
    scale: int
    kind: str


def _read(text: str, flag: str) -> _Typed:
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*", text)
    unit = _unit(match[2]) if match else None
    if match is None or unit is None:
        raise UsageError(
            f"cannot read {flag} {text!r}: expected a number such as 50G (memory), 16k (tokens), 256 or 0.8"
        )
    letter, scale, kind = unit
    return _Typed(flag=flag, text=text, value=Fraction(match[1]) * scale, unit=letter, scale=scale, kind=kind)


def _unit(text: str) -> tuple[str, int, str] | None:
    if not text:
        return "", 1, "plain"
    if text in _TOKENS:
        return text, _TOKENS[text], "tokens"
    letter = re.sub(r"(?i)i?b$", "", text).upper()
    return (letter, _MEMORY[letter], "memory") if letter in _MEMORY else None


def _one_kind(typed: Sequence[_Typed]) -> None:
    first = typed[0]
    other = next((one for one in typed if one.kind != first.kind), None)
    if other is not None:
        raise UsageError(
            f"{first.flag} {first.text} is {_KINDS[first.kind]} and {other.flag} {other.text} is {_KINDS[other.kind]}: "
            "give both in one unit, as in --low 40G --high 96G"
        )


def _default_step(typed: Sequence[_Typed], scale: int) -> Fraction:
    fractions = typed[0].kind == "plain" and any(one.value.denominator > 1 for one in typed)
    return Fraction(1, 100) if fractions else Fraction(scale)


def _ordered(low: _Typed, high: _Typed, step: Fraction) -> None:
    if low.value >= high.value:
        raise UsageError(f"--low {low.text} is not below --high {high.text}: there is nothing to search between them")
    if step <= 0 or step > high.value - low.value:
        raise UsageError(f"--resolution must be above 0 and no larger than the range from {low.text} to {high.text}")


def _check_form(form: str | None) -> None:
    if form is None:
        return
    names = _FIELD.findall(form)
    unknown = next((name for name in names if name not in _FIELDS), None)
    if not names or unknown:
        known = ", ".join(f"{{{name}}}" for name in _FIELDS)
        problem = f"has no field {{{unknown}}}" if unknown else "never uses the value"
        raise UsageError(f"--knob-format {form!r} {problem}: it may use {known}")


def _plain(number: Fraction) -> str:
    """A number without exponent and without needless zeros; thirds are cut at twelve digits."""
    if number.denominator == 1:
        return str(number.numerator)
    decimal = Decimal(number.numerator) / Decimal(number.denominator)
    return f"{decimal:.12f}".rstrip("0").rstrip(".")
