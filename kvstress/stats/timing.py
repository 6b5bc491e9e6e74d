"""Latencies and throughput of two sides as ratios with intervals: a timing without its uncertainty is no result.

A ratio is worse when its whole interval lies beyond the least effect, unchanged when it lies within it on both
sides, and otherwise nobody can tell. With one run a side the difference between two starts of a server is
in no interval, so such a row never says worse or better.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from kvstress.stats import resample
from kvstress.stats.facts import Change, Row, Side

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# The least effect on a time or a rate; its reciprocal on the other side.
LEAST = 1.10
FEWEST = 8
_QUANTILES = (0.5, 0.95)


def timing_rows(base: Side, head: Side) -> Iterator[tuple[Row, float | None]]:
    """A row for the median and one for the 95th percentile of each timing on both sides, each with its p-value."""
    for name in sorted({name for facts in base for name in facts.samples} & {n for f in head for n in f.samples}):
        runs = _runs(base, name), _runs(head, name)
        for q in _QUANTILES:
            # A percentile of fewer values than lie beyond it once would be their largest.
            if min(sum(map(len, side)) for side in runs) >= max(FEWEST, 2 / (1 - q)):
                yield _row(f"{name} p{100 * q:.0f}", runs, partial(_quantile, q=q), "s", up_is_worse=True)


def pace_row(base: Side, head: Side) -> Iterator[tuple[Row, float | None]]:
    """The throughput row: tokens generated over the time that steps took; then one for each batch size on both sides.

    Prompts of one step may differ in size, batches of one label do not: that row tells what the sum hides.
    """
    sides = [("throughput", [[facts.pace for facts in side] for side in (base, head)])]
    labels = [label for facts in base for label in facts.batches]
    sides += [
        (f"throughput, {label}", [[facts.batches.get(label, ()) for facts in side] for side in (base, head)])
        for label in dict.fromkeys(labels)
    ]
    for name, both in sides:
        runs = _paces(both[0]), _paces(both[1])
        if min(sum(map(len, side)) for side in runs) >= FEWEST:
            yield _row(name, runs, _pace, "tok/s", up_is_worse=False)


def _runs(side: Side, name: str) -> "list[NDArray[np.float64]]":
    import numpy as np

    return [np.asarray(facts.samples[name], dtype=float) for facts in side if facts.samples.get(name)]


def _paces(side: "Sequence[Sequence[tuple[float, float]]]") -> "list[NDArray[np.float64]]":
    import numpy as np

    return [np.asarray(run, dtype=float) for run in side if run]


def _quantile(samples: "NDArray[np.float64]", q: float) -> "NDArray[np.float64]":
    """The nearest-rank quantile of each sample, (draws, values): a value that was measured."""
    import numpy as np

    place = min(samples.shape[1] - 1, int(q * samples.shape[1]))
    found: NDArray[np.float64] = np.partition(samples, place, axis=1)[:, place]
    return found


def _pace(samples: "NDArray[np.float64]") -> "NDArray[np.float64]":
    """Tokens a second of each sample of steps, (draws, steps, 2)."""
    tokens, seconds = samples.sum(axis=1).T
    found: NDArray[np.float64] = tokens / seconds
    return found


def _row(
    metric: str,
    runs: "tuple[list[NDArray[np.float64]], list[NDArray[np.float64]]]",
    summary: resample.Summary,
    unit: str,
    *,
    up_is_worse: bool,
) -> tuple[Row, float | None]:
    import numpy as np

    base, head = (float(summary(np.concatenate(side)[None])[0]) for side in runs)
    drawn = resample.ratios(runs[0], runs[1], summary)
    span = resample.interval(drawn)
    counted = (
        f"{sum(map(len, runs[0])):,} and {sum(map(len, runs[1])):,} values of {len(runs[0])} and {len(runs[1])} runs"
    )
    verdict, p = (Change.CANNOT_TELL, None) if span is None else _verdict(drawn, span, up_is_worse=up_is_worse)
    said = counted
    if min(map(len, runs)) < 2 and verdict in (Change.REGRESSED, Change.IMPROVED):
        verdict, p = Change.CANNOT_TELL, None
        said += "; one run a side: the difference between two starts of a server is not in the interval"
    row = Row(
        metric=metric,
        base=f"{base:.4g} {unit}",
        head=f"{head:.4g} {unit}",
        ratio=head / base if base else None,
        interval=span,
        verdict=verdict,
        said=said,
    )
    return row, p


def _verdict(
    drawn: "NDArray[np.float64]", span: tuple[float, float], *, up_is_worse: bool
) -> tuple[Change, float | None]:
    """The word, and the share of draws that speak against it, doubled because either direction was looked for."""
    if span[0] > 1 / LEAST and span[1] < LEAST:
        return Change.UNCHANGED, None
    ways = Change.REGRESSED if up_is_worse else Change.IMPROVED, Change.IMPROVED if up_is_worse else Change.REGRESSED
    if span[0] > LEAST:
        return ways[0], _share((drawn <= LEAST).sum(), len(drawn))
    if span[1] < 1 / LEAST:
        return ways[1], _share((drawn >= 1 / LEAST).sum(), len(drawn))
    return Change.CANNOT_TELL, None


def _share(against: int, draws: int) -> float:
    return float(min(1.0, 2 * (1 + against) / (1 + draws)))
