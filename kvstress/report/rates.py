"""The table of tokens a second by level, in words that terminal, page and summary share."""

from collections.abc import Iterator, Sequence

from kvstress.core.rates import METHOD, Rate, span
from kvstress.report.hostile import line
from kvstress.report.phrases import NOT_REPORTED, seconds

HEADS = ("sent", "tok/s", "interval of the median", "lowest and highest", "batches", "first token")
_ROWS = 64


def rows(rates: Sequence[Rate]) -> list[tuple[str, ...]]:
    """A row a level, in the order of `HEADS`."""
    return [_row(rate) for rate in rates[:_ROWS]]


def _row(rate: Rate) -> tuple[str, ...]:
    left = f", {rate.left_out} not answered whole" if rate.left_out else ""
    label, batches, first = line(rate.label, 40), f"{len(rate.rounds)}{left}", seconds(rate.first_token)
    if not rate.rounds:
        return label, NOT_REPORTED, NOT_REPORTED, NOT_REPORTED, batches, first
    low, high, share = span(rate.rounds)
    middle = sorted(rate.rounds)
    median = (middle[len(middle) // 2] + middle[(len(middle) - 1) // 2]) / 2
    interval = f"{figure(low)} to {figure(high)} ({100 * share:.0f} %)" if len(middle) > 1 else "one batch tells none"
    return label, figure(median), interval, f"{figure(middle[0])} and {figure(middle[-1])}", batches, first


def figure(value: float) -> str:
    """Three significant figures."""
    return f"{value:.3g}" if value < 1000 else f"{value:,.0f}"


def note() -> str:
    """How the figures are taken."""
    return f"Generated tokens over the time from a batch's first sending to its last answer's end; {METHOD}."


def lines(rates: Sequence[Rate]) -> Iterator[str]:
    """The table as aligned text; nothing where there is none."""
    if not rates:
        return
    table = [HEADS, *rows(rates)]
    widths = [max(len(row[place]) for row in table) for place in range(len(HEADS))]
    for row in table:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
    yield note()
