import tracemalloc
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest

from kvstress.core.events import Event
from kvstress.store import rundir
from tests.store.made import judgement, manifest, one_step

EVENTS = 50_000
# A run kept in memory would take tens of megabytes; the fold may keep the open step and a few buffers.
GROWTH_BYTES = 1_000_000


def _endless() -> Iterator[Event]:
    for step in range(EVENTS):
        yield from one_step(step)


@pytest.mark.timeout(300)
def test_a_long_run_is_written_read_and_rebuilt_in_constant_memory(tmp_path: Path) -> None:
    run = tmp_path / "run"
    with rundir.create(run, manifest()) as writer:
        stream = _endless()
        for event in islice(stream, 1_000):
            writer.append(event)
        tracemalloc.start()
        try:
            before = tracemalloc.get_traced_memory()[0]
            for event in islice(stream, EVENTS - 1_000):
                writer.append(event)
            wrote = tracemalloc.get_traced_memory()[1] - before
            writer.close()
            rundir.rebuild(run, judgement())
            read = sum(1 for _ in rundir.read_events(run))
            peak = tracemalloc.get_traced_memory()[1] - before
        finally:
            tracemalloc.stop()
    assert read == EVENTS
    assert (run / "events.jsonl").stat().st_size > 10 * GROWTH_BYTES
    assert max(wrote, peak) < GROWTH_BYTES
