"""Whatever a test does, none of the processes that it started outlives it."""

import os
import signal
import uuid
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.launch.servers import Bench, marked


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(folder=tmp_path, mark=f"mark-{uuid.uuid4()}")
    yield bench
    for pid in marked(bench.mark):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
