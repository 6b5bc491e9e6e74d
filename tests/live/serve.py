"""`python -m tests.live.serve ENGINE [FLAGS]`: start an engine, leave it running, and say how to stress and stop it."""

import os
import shlex
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

from tests.live.engines import ENGINES
from tests.live.environments import NotInstalledError, cache, environment

_FLAGS = {
    "transformers": "--cb-num-blocks 256",
    "llama.cpp": "hybrid.gguf --ctx-size 16384 --parallel 1",
    "vllm": "--dtype float32 --kv-cache-memory-bytes 67108864",
}
_STRESS = {
    "transformers": "--workload ramp --set end=16k",
    "llama.cpp": "--workload speedbench --set contexts=2k,4k --set coverage.keys=hit --max-steps 8",
    "vllm": "--workload speedbench --max-steps 14",
}
_PATIENCE = 300.0


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/health", timeout=2) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def _started(name: str, flags: str, port: int, log: Path) -> "subprocess.Popen[bytes]":
    engine = ENGINES[name]
    command = shlex.split(engine.command(environment(engine.recipe), flags).format(port=port))
    added = dict(value.split("=", 1) for value in engine.env)
    with log.open("wb") as out:
        return subprocess.Popen(
            command, stdout=out, stderr=subprocess.STDOUT, env=os.environ | added, start_new_session=True
        )


def main(name: str, flags: str) -> int:
    """Exit 0 with the server running, 125 when it cannot be installed or does not come up."""
    port = _free_port()
    url, log = f"http://127.0.0.1:{port}", cache() / f"{name}.log"
    try:
        process = _started(name, flags or _FLAGS[name], port, log)
    except NotInstalledError as problem:
        print(problem)
        return 125
    for _ in range(int(_PATIENCE)):
        if process.poll() is None and _answers(url):
            print(f"{name} {ENGINES[name].recipe.version} answers at {url} (log: {log})")
            print(f"stress it:  .venv/bin/kvstress run --server {url} {_STRESS[name]}")
            print(f"stop it:    kill -- -{process.pid}")
            return 0
        if process.poll() is not None:
            break
        time.sleep(1.0)
    if process.poll() is None:
        os.killpg(process.pid, 15)
    print(f"{name} did not come up: see {log}")
    return 125


if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[1] not in ENGINES:
        print(f"name an engine: {', '.join(ENGINES)}")
        sys.exit(2)
    sys.exit(main(sys.argv[1], " ".join(sys.argv[2:])))
