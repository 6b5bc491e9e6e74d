"""A reference server that outlives the kvstress runs pointed at it."""

import re
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest


@pytest.fixture
def reference() -> Iterator[Callable[..., str]]:
    """Start reference servers (each with its arguments, giving its URL); all are stopped at the end."""
    started: list[subprocess.Popen[str]] = []

    def start(*arguments: str) -> str:
        command = [sys.executable, "-m", "kvstress.refserver", "--port", "0", *arguments]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        started.append(process)
        assert process.stdout is not None
        found = re.search(r"http://127\.0\.0\.1:\d+", process.stdout.readline())
        assert found is not None
        return found[0]

    yield start
    for process in started:
        process.terminate()
    for process in started:
        process.wait(20)
        assert process.stdout is not None
        process.stdout.close()
