"""`python -m tests.live.stale_snapshot`: three requests after which llama.cpp b11434 answers out of another's snapshot.

`fuzz` found it on the hybrid model: now and then an answer with one cached token was not the cold one. A prompt whose
first piece is one token long (five tokens, because the last four are held back; or one token before a full batch)
leaves a snapshot of the recurrent state at position 0, which later prompts in that slot do not drop. The next prompt
but one that shares its first token with its predecessor is given that snapshot, although its first token is another.
Exit 1 while the defect is there, 0 when it is gone, 125 when llama.cpp cannot be started.
"""

import json
import sys
import urllib.request
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.live.environments import NotInstalledError
from tests.live.serve import started, stopped

# Token ids. The second and the third share their first token, which is not that of the first prompt.
LEAVES = (300, 301, 302, 303, 304)
BEFORE = (700, *range(710, 740))
ASKED = (700, *range(810, 840))
FLAGS = "hybrid.gguf --ctx-size 8192 --parallel 1"


def asked(url: str, prompt: tuple[int, ...], *, cache: bool) -> tuple[str, int]:
    """The greedy answer to token ids, and how many of them were taken from the cache."""
    body = {"prompt": list(prompt), "max_tokens": 8, "temperature": 0, "cache_prompt": cache}
    request = urllib.request.Request(
        f"{url}/v1/completions", data=json.dumps(body).encode(), headers={"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        said: dict[str, Any] = json.loads(answer.read())
    return str(said["choices"][0]["text"]), int(said["usage"]["prompt_tokens_details"]["cached_tokens"])


def answers(prompts: tuple[tuple[int, ...], ...], log: Path, *, cache: bool) -> tuple[str, int]:
    """What a fresh server says to the last of `prompts`."""
    process, url = started("llama.cpp", FLAGS, log)
    try:
        return [asked(url, prompt, cache=cache) for prompt in prompts][-1]
    finally:
        stopped(process)


def main() -> int:
    """Ask the third prompt of a server that was asked the other two, and of one that was not."""
    with TemporaryDirectory() as folder:
        log = Path(folder) / "server.log"
        try:
            warm, cached = answers((LEAVES, BEFORE, ASKED), log, cache=True)
            cold, _ = answers((ASKED,), log, cache=False)
        except NotInstalledError as problem:
            print(problem)
            return 125
    print(f"cold {cold!r}\nthird {warm!r}, {cached} of {len(ASKED)} tokens from the cache")
    return int(warm != cold)


if __name__ == "__main__":
    sys.exit(main())
