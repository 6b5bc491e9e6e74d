"""What these tests share: a reference server on a free port, a client on plain sockets, synthetic prompts."""

from __future__ import annotations

import json
import random
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from typing import Any

_TEXT = """
the cache holds pages and each page holds tokens for one request so that a model may read them again later when
another prompt starts with the same words or code then values return from memory without being computed twice
"""
WORDS = _TEXT.split()


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """A response: `body` is the parsed JSON, or None when it is not JSON."""

    status: int
    raw: bytes
    body: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """A running server and how to speak to it."""

    port: int
    process: subprocess.Popen[str]

    def request(self, method: str, path: str, body: bytes | None = None) -> Reply:
        """One request on a connection of its own."""
        connection = HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request(method, path, body, {"content-type": "application/json"})
            response = connection.getresponse()
            raw = response.read()
        finally:
            connection.close()
        try:
            parsed = json.loads(raw)
        except ValueError:
            parsed = None
        return Reply(status=response.status, raw=raw, body=parsed)

    def post(self, path: str, **body: Any) -> Reply:
        """POST a JSON object."""
        return self.request("POST", path, json.dumps(body).encode())

    def chat(self, text: str, **body: Any) -> Reply:
        """A chat completion with one user message."""
        return self.post("/v1/chat/completions", messages=[{"role": "user", "content": text}], **body)

    def metrics(self) -> dict[str, float]:
        """All samples of /metrics without labels."""
        lines = self.request("GET", "/metrics").raw.decode().splitlines()
        return {line.split()[0]: float(line.split()[1]) for line in lines if not line.startswith("#")}


@contextmanager
def serving(*arguments: str) -> Iterator[Served]:
    """A reference server started with `arguments`, stopped with SIGTERM, which must end it with exit code 0."""
    command = [sys.executable, "-m", "kvstress.refserver", "--port", "0", *arguments]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        found = re.search(r"listening on http://127\.0\.0\.1:(\d+)", line)
        assert found is not None, f"the server said {line!r} and {process.stderr and process.stderr.read()!r}"
        yield Served(port=int(found[1]), process=process)
    finally:
        process.terminate()
        _, errors = process.communicate(timeout=10)
    assert process.returncode == 0, errors


def low_entropy(seed: str, characters: int) -> str:
    """Text of a dozen sentences in random order, distinct from its first words on."""
    choice = random.Random(seed)
    sentences = [" ".join(choice.choices(WORDS, k=choice.randint(5, 12))) + ".\n" for _ in range(12)]
    parts = [f"Report {choice.getrandbits(32):08x}.\n"]
    size = len(parts[0])
    while size < characters:
        parts.append(choice.choice(sentences))
        size += len(parts[-1])
    return "".join(parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """What an alternating run of 16k and 32k prompts came to; None for what did not happen."""

    pool_full_at: int | None
    failed_at: int | None
    phase: str | None
    message: str | None
    fewest_free_snapshots: float


def speedbench(served: Served, seed: str, steps: int) -> Bench:
    """Prime and warm sends, one at a time, to the first that fails; lengths vary by a tenth, as prepared data does."""
    calibration = low_entropy("calibration", 20_000)
    per_token = 20_000 / served.chat(calibration, max_tokens=1).body["usage"]["prompt_tokens"]
    full, fewest = None, float("inf")
    for step in range(steps):
        tokens = (16_000, 32_000)[step % 2] * random.Random(f"{seed}/{step}").uniform(0.9, 1.0)
        text = low_entropy(f"{seed}/{step}", int(tokens * per_token))
        replies = {"prime": served.chat(text, max_tokens=1), "warm": served.chat(text, max_tokens=64)}
        metrics = served.metrics()
        fewest = min(fewest, metrics["flare_free_snapshots"])
        full = step if full is None and metrics["flare_evictions_total"] > 0 else full
        for phase, reply in replies.items():
            if reply.status != 200:
                said = reply.body["error"]["message"]
                return Bench(pool_full_at=full, failed_at=step, phase=phase, message=said, fewest_free_snapshots=fewest)
    return Bench(pool_full_at=full, failed_at=None, phase=None, message=None, fewest_free_snapshots=fewest)


def events(raw: bytes) -> list[Any]:
    """The data of each server-sent event: parsed JSON, or the string of a last [DONE]."""
    data = [line.removeprefix("data: ") for line in raw.decode().split("\n\n") if line]
    return [each if each == "[DONE]" else json.loads(each) for each in data]


@contextmanager
def half_open(served: Served, path: str, **body: Any) -> Iterator[socket.socket]:
    """A raw connection on which a request was sent; closing it before the answer is over is a disconnect."""
    payload = json.dumps(body).encode()
    head = (
        f"POST {path} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: {len(payload)}\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", served.port), timeout=30) as connection:
        connection.sendall(head.encode() + payload)
        yield connection


def settled(served: Served, **wanted: float) -> dict[str, float]:
    """Wait until the metrics named have the values wanted; what they are when patience ends."""
    metrics = served.metrics()
    for _ in range(200):
        if all(metrics[f"flare_{name}"] == value for name, value in wanted.items()):
            break
        time.sleep(0.02)
        metrics = served.metrics()
    return metrics
