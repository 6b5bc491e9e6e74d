"""Other load generators, each in an environment of its own that somebody has made; without one it is skipped.

`KVSTRESS_PEERS` names a folder with a virtual environment per peer (`guidellm/bin/guidellm` and so on). Their cost per
event is the slope between a short and a long run of the same command: start-up, which takes some of them ten seconds,
falls out.
"""

import json
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

from tests.bench.processes import cpu_of

_SHORT, _LONG = 1, 4


def home(name: str) -> Path:
    """Where the environment of peer `name` would be."""
    return Path(os.environ.get("KVSTRESS_PEERS", "peers")) / name


def installed() -> list[str]:
    """The peers that can be run here."""
    return [name for name in PEERS if (home(name) / "bin" / "python").exists()]


def peer_cpu(name: str, url: str, streams: int, events: int) -> float:
    """CPU seconds of peer `name` per streamed event."""
    costs = []
    for turns in (_SHORT, _LONG):
        with tempfile.TemporaryDirectory() as folder:
            command = PEERS[name](Path(folder), url, streams, events, turns * streams)
            costs.append(cpu_of(command, cwd=folder))
    return (costs[1] - costs[0]) / ((_LONG - _SHORT) * streams * events)


def _guidellm(folder: Path, url: str, streams: int, events: int, requests: int) -> list[str]:
    prompts = folder / "prompts.jsonl"
    prompts.write_text(
        "".join(json.dumps({"prompt": f"word {n}", "output_tokens_count": events}) + "\n" for n in range(requests))
    )
    return [
        str(home("guidellm") / "bin" / "guidellm"),
        "run",
        "--backend",
        f"kind=openai_http,target={url},model=every-20ms",
        "--profile",
        f"kind=concurrent,streams=[{streams}]",
        "--data",
        f"kind=json_file,path={prompts}",
        "--constraint",
        f"kind=max_requests,count={requests}",
        "--disable-console",
        "--output",
        "kind=json,path=guidellm.json",
    ]


PEERS: dict[str, Callable[[Path, str, int, int, int], list[str]]] = {"guidellm": _guidellm}
