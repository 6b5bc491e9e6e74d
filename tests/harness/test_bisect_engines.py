"""The search on real engines, with boundaries that are worked out by hand.

They run where the engines are, and `make live` says where: `KVSTRESS_TRANSFORMERS` is a `transformers` program with
its serving extra and `KVSTRESS_TINY_MODEL` a model folder; `KVSTRESS_LLAMA_SERVER` a llama-server command with its
model and `--port {port}`; `KVSTRESS_VLLM` a Python that has vLLM for CPUs.
"""

import json
import math
import os
import shlex
from pathlib import Path
from typing import Any

import pytest

from tests.cli.running import KVSTRESS, kvstress

TRANSFORMERS, MODEL = os.environ.get("KVSTRESS_TRANSFORMERS"), os.environ.get("KVSTRESS_TINY_MODEL")
LLAMA = os.environ.get("KVSTRESS_LLAMA_SERVER")
VLLM = os.environ.get("KVSTRESS_VLLM")
VLLM_ENV = ("HF_HUB_OFFLINE=1", "VLLM_NO_USAGE_STATS=1", "DO_NOT_TRACK=1", "VLLM_HOST_IP=127.0.0.1", "VLLM_PLUGINS=")
WORKLOAD = """
name = "sizes"
hunts = "a prompt that does not fit into the pool"
[source]
kind = "speedbench"
contexts = [{contexts}]
spread = 0.0
[[phases]]
name = "ask"
max_tokens = {answer}
[schedule]
kind = "closed"
lanes = {lanes}
[sampling]
temperature = 0.0
[stop]
max_steps = {steps}
[oracles]
arm = ["STATUS", "STREAM", "LIVENESS"]
[aside]
when = "after"
max_requests = 1
"""


def search(folder: Path, launch: str, *words: str, **workload: Any) -> dict[str, Any]:
    """bisect.json of a search with that workload; kvstress is given fourteen minutes."""
    (folder / "workload.toml").write_text(WORKLOAD.format(**workload))
    assert KVSTRESS.exists()
    made = ("bisect", "--launch", launch, "--workload", "workload.toml", "--out", "search", "--quiet", *words)
    done = kvstress(*made, cwd=folder, seconds=850)
    assert done.returncode == 0, done.stdout + done.stderr
    content: dict[str, Any] = json.loads((folder / "search" / "bisect.json").read_text())
    return content


@pytest.mark.timeout(900)
@pytest.mark.skipif(not (TRANSFORMERS and MODEL), reason="KVSTRESS_TRANSFORMERS and KVSTRESS_TINY_MODEL are not set")
def test_transformers_needs_as_many_blocks_as_its_longest_prompt_and_answer_fill(tmp_path: Path) -> None:
    block, prompt, answer = 32, 2000, 64
    launch = (
        f"{shlex.quote(str(TRANSFORMERS))} serve {shlex.quote(str(MODEL))} --host 127.0.0.1 --port {{port}} "
        f"--device cpu --dtype float32 --continuous-batching --cb-block-size {block} --cb-num-blocks {{n}}"
    )
    words = ("--env", "HF_HUB_OFFLINE=1", "--low", "62", "--high", "70")
    found = search(tmp_path, launch, *words, contexts=f"1000, {prompt}", answer=answer, lanes=1, steps=4)
    needed = math.ceil((prompt + answer) / block)
    assert needed == 65
    assert found["boundary"] == {"failing": str(needed - 1), "passing": str(needed), "confidence": None}
    failing = [one for one in found["probes"] if one["outcome"] == "FAILS"]
    assert {one["first_failure"] for one in failing} == {1}, "the first long prompt"
    assert all("CB worker is dead" in one["why"] for one in failing), "the dead worker is recognised"
    # Each probe began on a server of its own: after a dead worker the next one answered its first prompt again.
    assert all(one["exposure"] >= 1 for one in found["probes"])


@pytest.mark.timeout(900)
@pytest.mark.skipif(not LLAMA, reason="KVSTRESS_LLAMA_SERVER is not set")
def test_llama_cpp_refuses_to_start_at_one_context_and_fails_prompts_at_another(tmp_path: Path) -> None:
    launch = f"{LLAMA} --ctx-size {{n}} --parallel 4 --kv-unified"
    words = ("--low", "1", "--high", "1025", "--resolution", "64", "--ready-timeout", "30s")
    found = search(tmp_path, launch, *words, contexts="120", answer=100, lanes=4, steps=8)
    # Contexts are rounded up to 256 tokens, and four times (120 + 100) tokens fit into 1,024 but not into 768.
    assert found["boundary"] == {"failing": "705", "passing": "769", "confidence": None}
    assert found["refused_below"] == "65", "1 refuses to start, the next value of the grid starts"
    refused = [one for one in found["probes"] if one["outcome"] == "REFUSED TO START"]
    assert [one["value"] for one in refused] == ["1"]
    assert all("its last log lines" in one["why"] for one in refused)


@pytest.mark.timeout(900)
@pytest.mark.skipif(not (VLLM and MODEL), reason="KVSTRESS_VLLM and KVSTRESS_TINY_MODEL are not set")
def test_vllm_refuses_a_pool_below_one_request_and_fails_no_prompt_above(tmp_path: Path) -> None:
    longest, block = 4096, 64
    # Keys and values of two layers with two heads of 32 float32 numbers, which is what the tiny model has.
    block_kib = 2 * 2 * 2 * 32 * 4 * block // 1024
    launch = (
        f"{shlex.quote(str(VLLM))} -m vllm.entrypoints.openai.api_server --model {shlex.quote(str(MODEL))} "
        f"--host 127.0.0.1 --port {{port}} --served-model-name tiny --dtype float32 --max-model-len {longest} "
        f"--block-size {block} --enable-prefix-caching --max-num-seqs 4 --enforce-eager --kv-cache-memory-bytes {{n}}"
    )
    env = [word for value in VLLM_ENV for word in ("--env", value)]
    limits = ("--low", f"{60 * block_kib}K", "--high", f"{76 * block_kib}K", "--resolution", f"{block_kib}K")
    words = (*env, *limits, "--knob-format", "{bytes}", "--ready-timeout", "120s")
    found = search(tmp_path, launch, *words, contexts="1000, 3000", answer=16, lanes=1, steps=4)
    # One request of the longest length, and the block that vLLM keeps for itself.
    least = longest // block + 1
    assert found["boundary"] is None
    assert found["refused_below"] == f"{least * block_kib}K"
    outcomes = {int(one["value"].rstrip("K")) // block_kib: one["outcome"] for one in found["probes"]}
    assert outcomes[least - 1] == "REFUSED TO START"
    assert all((outcome == "REFUSED TO START") == (blocks < least) for blocks, outcome in outcomes.items()), outcomes
    refused = [one["why"] for one in found["probes"] if one["outcome"] == "REFUSED TO START"]
    assert all("its last log lines" in why for why in refused)
