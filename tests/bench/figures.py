"""Figures as they come, with their spread: printed, kept as CSV, drawn.

One figure of a busy machine says little; every one here is the median of several, with the least and the most. A ratio
is of two neighbours in time, so that a slow minute falls on both.
"""

import csv
import statistics
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import altair


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """`values` of one measure of one client, in the order in which they were taken."""

    section: str
    who: str
    measure: str
    values: tuple[float, ...]
    note: str = ""

    @property
    def row(self) -> tuple[str, ...]:
        low, middle, high = min(self.values), statistics.median(self.values), max(self.values)
        numbers = (f"{value:.4g}" for value in (middle, low, high))
        return (self.section, self.who, self.measure, *numbers, str(len(self.values)), self.note)


def ratio(section: str, measure: str, ours: Figure, theirs: Figure) -> Figure:
    """Our value over theirs, pair by pair."""
    return Figure(
        section=section,
        who=f"{ours.who} / {theirs.who}",
        measure=measure,
        values=tuple(a / b for a, b in zip(ours.values, theirs.values, strict=True)),
    )


HEAD = ("section", "who", "measure", "median", "least", "most", "n", "note")


def show(figure: Figure) -> None:
    """One line on standard output."""
    section, who, measure, middle, low, high, count, note = figure.row
    print(f"{section:12} {who:30} {measure:26} {middle:>9}  ({low} to {high}, n={count}) {note}", flush=True)


def write(figures: list[Figure], folder: Path) -> None:
    """`bench.csv` and `bench.svg` in `folder`: all figures, and the CPU per event as a picture."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "bench.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(HEAD)
        writer.writerows(figure.row for figure in figures)
    points = [
        {"client": figure.who, "CPU per event, µs": value}
        for figure in figures
        if figure.measure == "CPU per event, µs"
        for value in figure.values
    ]
    if points:
        data: Any = {"values": points}
        chart = (
            altair.Chart(data)
            .mark_tick(thickness=3)
            .encode(
                x=altair.X("CPU per event, µs:Q", scale=altair.Scale(zero=True)), y=altair.Y("client:N", title=None)
            )
        )
        chart.properties(width=480).save(str(folder / "bench.svg"))
