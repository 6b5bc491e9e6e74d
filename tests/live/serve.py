"""`python -m tests.live.serve ENGINE [FLAGS]`: start an engine, leave it running, and say how to stress and stop it."""

import os
import shlex
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from contextlib import suppress
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
_PATIENCE, _GRACE = 300.0, 30.0


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


def started(name: str, flags: str, log: Path) -> "tuple[subprocess.Popen[bytes], str]":
    """The engine, leader of its own process group and answering, and its URL. Raises NotInstalledError."""
    engine, port = ENGINES[name], _free_port()
    command = shlex.split(engine.command(environment(engine.recipe), flags).format(port=port))
    added = dict(value.split("=", 1) for value in (*engine.env, "VLLM_PLUGINS="))
    with log.open("wb") as out:
        process = subprocess.Popen(
            command, stdout=out, stderr=subprocess.STDOUT, env=os.environ | added, start_new_session=True
        )
    url = f"http://127.0.0.1:{port}"
    for _ in range(int(_PATIENCE)):
        if process.poll() is None and _answers(url):
            return process, url
        if process.poll() is not None:
            break
        time.sleep(1.0)
    stopped(process)
    raise NotInstalledError(f"{name} did not come up: see {log}")


def stopped(process: "subprocess.Popen[bytes]") -> None:
    """End the engine and all that it started; by force after half a minute."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        try:
            process.wait(_GRACE)
        except subprocess.TimeoutExpired:
            continue


def main(name: str, flags: str) -> int:
    """Exit 0 with the server running, 125 when it cannot be installed or does not come up."""
    log = cache() / f"{name}.log"
    try:
        process, url = started(name, flags or _FLAGS[name], log)
    except NotInstalledError as problem:
        print(problem)
        return 125
    print(f"{name} {ENGINES[name].recipe.version} answers at {url} (log: {log})")
    print(f"stress it:  .venv/bin/kvstress run --server {url} {_STRESS[name]}")
    print(f"stop it:    kill -- -{process.pid}")
    return 0


if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[1] not in ENGINES:
        print(f"name an engine: {', '.join(ENGINES)}")
        sys.exit(2)
    sys.exit(main(sys.argv[1], " ".join(sys.argv[2:])))
