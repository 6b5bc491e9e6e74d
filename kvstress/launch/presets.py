"""How each engine is started with its pool's size as a knob, so that nobody has to look it up.

A preset is only a command: what it leaves out is added by typing the command instead.
`{port}` is filled by kvstress, the knob by the person or by the search, the rest (`{model}`) by the person.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Preset:
    """`command` has a placeholder named `knob`, the limit of the KV pool; `unit` says what the engine reads there.

    `form` is how a search writes a memory size for it; "" as people do.
    """

    command: str
    knob: str
    unit: str
    form: str = ""


PRESETS: dict[str, Preset] = {
    "flare": Preset(
        command="flare run {model} --gpus 0 --memory-limit {memory_limit} --port {port}",
        knob="memory_limit",
        unit="memory with a suffix, as 50G",
    ),
    "vllm": Preset(
        command="vllm serve {model} --host 127.0.0.1 --port {port} --enable-prefix-caching "
        "--enable-prompt-tokens-details --kv-cache-memory-bytes {kv_cache_memory_bytes}",
        knob="kv_cache_memory_bytes",
        unit="bytes of the KV pool",
        form="{bytes}",
    ),
    "sglang": Preset(
        command="python -m sglang.launch_server --model-path {model} --host 127.0.0.1 --port {port} "
        "--enable-metrics --enable-cache-report --mem-fraction-static {mem_fraction_static}",
        knob="mem_fraction_static",
        unit="fraction of GPU memory, 0 to 1",
    ),
    "llama-server": Preset(
        command="llama-server -m {model} --host 127.0.0.1 --port {port} --metrics --slots --ctx-size {ctx_size}",
        knob="ctx_size",
        unit="tokens of context, shared by all slots",
    ),
    "transformers": Preset(
        command="transformers serve {model} --host 127.0.0.1 --port {port} "
        "--continuous-batching --cb-block-size 32 --cb-num-blocks {cb_num_blocks}",
        knob="cb_num_blocks",
        unit="blocks of 32 tokens",
    ),
    "reference": Preset(
        command="kvstress serve --port {port} --memory-limit {memory_limit}",
        knob="memory_limit",
        unit="memory with a suffix, as 50G",
    ),
}
