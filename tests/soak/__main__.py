"""A day of a million requests in virtual time: does kvstress itself grow? Prints its figures; about half an hour.

The resident memory is read after every so many requests. What is claimed is the slope over a million of them, with the
interval of a line through the samples behind the first tenth, in which buffers and interned strings fill.
"""

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

from kvstress.core.events import Event
from kvstress.core.exchange import Exchange
from kvstress.core.verdict import Verdict
from tests.soak.virtual import soak

DAY = 86_400.0
LIMIT_MB = 20.0
SAMPLES = 20


def resident() -> int:
    """Resident memory of this process in bytes."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


class Memory:
    """Resident memory after every `every` requests, as (requests, bytes)."""

    def __init__(self, every: int) -> None:
        self.samples: list[tuple[int, int]] = []
        self._every = every
        self._requests = 0
        self._began = time.perf_counter()

    def see(self, event: Event) -> None:
        if not isinstance(event, Exchange):
            return
        self._requests += 1
        if self._requests % self._every == 0:
            self.samples.append((self._requests, resident()))
            spent = time.perf_counter() - self._began
            print(
                f"{self._requests:9,} requests  {event.ended / 3600:5.1f} h  {self.samples[-1][1] / 1e6:7.1f} MB  "
                f"{spent:6.0f} s",
                flush=True,
            )


def slope(samples: list[tuple[int, int]]) -> tuple[float, float]:
    """MB a million requests, and the half width of its 95 % interval (least squares, Student's t)."""
    from scipy import stats

    requests, memory = ([float(one[place]) for one in samples] for place in (0, 1))
    line = stats.linregress(requests, memory)
    wide = float(stats.t.ppf(0.975, len(samples) - 2)) * float(line.stderr)
    return float(line.slope), wide


def main() -> int:
    """0 when the slope's upper end is below the limit and the run passed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=1_000_000)
    asked = parser.parse_args()
    every = DAY / asked.requests
    memory = Memory(asked.requests // SAMPLES)
    settings = {"schedule.every": f"{every}s", "contexts": "100,200", "probe": "200", "max_duration": f"{DAY}s"}
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        done = soak(Path(folder) / "run", settings, service=lambda now: 0.6 * every, watch=memory.see)
        size = sum(file.stat().st_size for file in (Path(folder) / "run").iterdir())
    kept = memory.samples[SAMPLES // 10 :]
    each, wide = slope(kept)
    print(f"{done.requests:,} requests in {done.seconds / 3600:.1f} virtual hours, {time.perf_counter() - began:.0f} s")
    print(f"{done.judgement.verdict.name}: {done.judgement.why}; {size / 1e9:.2f} GB of record")
    print(
        f"resident memory: {each:.2f} ± {wide:.2f} MB a million requests (95 %, {len(kept)} samples), limit {LIMIT_MB}"
    )
    return 0 if done.judgement.verdict is Verdict.PASS and each + wide < LIMIT_MB else 1


if __name__ == "__main__":
    sys.exit(main())
