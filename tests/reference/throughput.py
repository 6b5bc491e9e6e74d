"""Does the fix cost speed? Tokens per second at 8k context, N at once, with and without it, in turn.

The two servers run side by side and are asked in turn, so that the machine's drift falls on both;
what is reported is the ratio of each pair, with a bootstrap interval of its median. The pool is so large that
it never fills: once it had, the server without the fix would fail instead of being slow.
"""

import csv
import random
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path

from msgspec import json

MEMORY_LIMIT = "240G"
LANES = (1, 2, 4, 8, 16, 32)
REPETITIONS = 5
OUTPUT_TOKENS = 32
UNITS = 6_400  # about 8,000 tokens of the reference server


@contextmanager
def _serving(*arguments: str) -> Iterator[int]:
    command = [sys.executable, "-m", "kvstress.refserver", "--port", "0", "--memory-limit", MEMORY_LIMIT, *arguments]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        found = re.search(r"http://127\.0\.0\.1:(\d+)", process.stdout.readline())
        assert found is not None
        yield int(found[1])
    finally:
        process.terminate()
        process.communicate(timeout=20)


def _ask(port: int, text: str) -> int:
    body = {"messages": [{"role": "user", "content": text}], "max_tokens": OUTPUT_TOKENS, "temperature": 0}
    connection = HTTPConnection("127.0.0.1", port, timeout=120)
    try:
        connection.request("POST", "/v1/chat/completions", json.encode(body), {"content-type": "application/json"})
        answer = json.decode(connection.getresponse().read())
        return int(answer["usage"]["completion_tokens"])
    finally:
        connection.close()


def _prompt(key: str) -> str:
    draw = random.Random(key)
    return f"{draw.getrandbits(40):x} " + " ".join(
        draw.choices(("keep", "swap", "sort", "the", "items", "again"), k=UNITS)
    )


def _rate(port: int, lanes: int, key: str) -> float:
    """Output tokens per second over `lanes` requests that start together."""
    prompts = [_prompt(f"{key}/{lane}") for lane in range(lanes)]
    with ThreadPoolExecutor(lanes) as pool:
        began = time.perf_counter()
        tokens = sum(pool.map(lambda text: _ask(port, text), prompts))
        return tokens / (time.perf_counter() - began)


def interval(ratios: list[float], draws: int = 2_000) -> tuple[float, float]:
    """The 95 % bootstrap interval of the median."""
    draw = random.Random(0)
    medians = sorted(statistics.median(draw.choices(ratios, k=len(ratios))) for _ in range(draws))
    return medians[draws // 40], medians[-draws // 40 - 1]


def measure(table: Path) -> None:
    """Write a row per N: both medians in tokens per second, the median of the paired ratios and its interval."""
    fields = ("concurrent", "without", "with", "ratio", "low", "high", "pairs")
    with table.open("w", newline="") as file, _serving() as plain, _serving("--fix", "zero-on-release") as fixed:
        writer = csv.writer(file)
        writer.writerow(fields)
        for lanes in LANES:
            pairs = [
                (_rate(plain, lanes, f"{lanes}/{turn}/a"), _rate(fixed, lanes, f"{lanes}/{turn}/b"))
                for turn in range(REPETITIONS)
            ]
            ratios = [with_fix / without for without, with_fix in pairs]
            medians = (statistics.median(side) for side in zip(*pairs, strict=True))
            figures = (*medians, statistics.median(ratios), *interval(ratios))
            writer.writerow([lanes, *(f"{figure:.3f}" for figure in figures), len(pairs)])
