"""One run of kvstress, whole: record written in full, oracles armed, and what it cost from its first step on.

It is `kvstress run` without its command line; start-up, sizing and the report are outside the measurement, as they are
for the others. Held against the server's own times, which are the tokens of the answers.
Prints its figures as JSON.
"""

import argparse
import asyncio
import contextlib
import json
import sys
from bisect import bisect_left
from collections.abc import Iterator
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import anyio

from kvstress.core.events import Event, RequestSent, RunEnded
from kvstress.core.exchange import Exchange
from kvstress.core.manifest import Manifest
from kvstress.core.plan import Origin
from kvstress.core.record import Record
from kvstress.harness.options import RunOptions
from kvstress.harness.run import run
from kvstress.store import rundir
from tests.bench.cost import Meter, percentile, sample_lag
from tests.bench.server import EVENT_BYTES, STAMP

_STAMP = len(STAMP % 0.0)


class _Watch:
    """A view of a run that marks where its traffic begins and ends."""

    def __init__(self) -> None:
        self.meter: Meter | None = None
        self.lags: list[float] = []
        self.cost: dict[str, float] = {}
        self._lag: asyncio.Task[None] | None = None

    @contextlib.contextmanager
    def __call__(self, manifest: Manifest) -> Iterator[Any]:
        yield self.see

    def see(self, event: Event) -> None:
        if self.meter is None and isinstance(event, RequestSent) and event.origin is Origin.STEP:
            self.meter = Meter()
            self._lag = asyncio.get_running_loop().create_task(sample_lag(self.lags))
        elif isinstance(event, RunEnded) and self.meter and self._lag:
            self.cost = self.meter.cost()
            self._lag.cancel()


def errors(exchange: Exchange) -> tuple[float, list[float]]:
    """By how much the time to first token is off, and each gap, in seconds: measured less what the server did."""
    text, reads = exchange.text, list(accumulate(exchange.chunk_bytes))
    stamps = [float(text[place : place + _STAMP]) for place in range(0, len(text), _STAMP)]
    came, *written = stamps
    ends = (EVENT_BYTES * (count + 1) + _STAMP for count in range(len(written)))
    seen = [exchange.chunk_at[min(bisect_left(reads, end), len(reads) - 1)] for end in ends]
    gaps = [(b - a) - (d - c) for (a, b), (c, d) in zip(pairwise(seen), pairwise(written), strict=True)]
    return (seen[0] - exchange.sent) - (written[0] - came), gaps


def _accuracy(path: Path) -> dict[str, float]:
    first: list[float] = []
    gaps: list[float] = []
    steps = {
        event.request for event in rundir.read_events(path) if isinstance(event, RequestSent) and event.step is not None
    }
    for event in rundir.read_events(path):
        if isinstance(event, Exchange) and event.request in steps:
            off, between = errors(event)
            first.append(abs(off))
            gaps += map(abs, between)
    return {
        "ttft_error_p50_ms": 1000 * percentile(first, 0.5),
        "ttft_error_p99_ms": 1000 * percentile(first, 0.99),
        "gap_error_p50_ms": 1000 * percentile(gaps, 0.5),
        "gap_error_p99_ms": 1000 * percentile(gaps, 0.99),
    }


def _options(given: argparse.Namespace) -> RunOptions:
    return RunOptions(
        server=given.url,
        workload=str(Path(__file__).parent / "workloads" / f"{given.workload}.toml"),
        model=given.model,
        settings=dict(pair.split("=", 1) for pair in given.set),
        max_steps=given.steps,
        workers=given.workers,
        keep_going=True,
        asides=False,
        record=Record.FULL,
        out=given.out,
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("url")
    parser.add_argument("out", type=Path)
    parser.add_argument("--workload", default="burst")
    parser.add_argument("--model", default="every-20ms")
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--events", type=int, required=True)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--set", action="append", default=[])
    parser.add_argument("--accuracy", action="store_true")
    given = parser.parse_args()
    watch = _Watch()
    result = anyio.run(run, _options(given), watch, backend="asyncio", backend_options={"use_uvloop": True})
    requests = result.judgement.steps
    found = watch.cost | {"events": requests * given.events, "requests": requests}
    found |= {"lag_p99_ms": 1000 * percentile(watch.lags, 0.99), "lag_max_ms": 1000 * max(watch.lags)}
    if given.accuracy:
        found |= _accuracy(given.out)
    print(json.dumps(found | {"verdict": result.judgement.verdict.name, "why": result.judgement.why}), file=sys.stdout)


if __name__ == "__main__":
    main()
