"""What the campaigns send to which engine: short runs of every workload, varied by flags and by seed.

Each flag set changes something that a cache depends on: how many slots share it, whether they share one pool, how many
snapshots of recurrent state are kept, how wide the numbers are.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Sends:
    """A workload, made small: `words` of `kvstress run`."""

    title: str
    words: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """An engine with flags and what is sent to it, once for each seed; `words` go with every run.

    `twin`: a fresh server for each run, and a second one beside it that answers cold.
    """

    name: str
    engine: str
    flags: str
    sends: tuple[Sends, ...]
    seeds: range
    twin: bool = False
    words: tuple[str, ...] = ()


def _sends(workload: str, *settings: str, steps: int | None = None) -> Sends:
    words = tuple(word for setting in settings for word in ("--set", setting))
    most = () if steps is None else ("--max-steps", str(steps))
    return Sends(title=workload, words=("--workload", workload, *words, *most))


_SHORT = (
    _sends("speedbench", "contexts=256,512", "phases.warm.max_tokens=24", steps=3),
    _sends("ramp", "start=128", "end=512", "source.steps=3", "phases.warm.max_tokens=24"),
    _sends("resend", "contexts=256,512", "phases.cold.max_tokens=24", "phases.warm.max_tokens=24", steps=2),
    _sends("poolwrap", "contexts=128,256", "prompts=4", "rounds=2", "logprobs=3", "phases.ask.max_tokens=16"),
    _sends("abort", "contexts=256,512", steps=2),
    _sends("mixed", "phases.ask.max_tokens=16", steps=12),
    _sends("herd", "contexts=256", "prompts=2", "phases.herd.max_tokens=16", "phases.alone.max_tokens=16"),
    _sends("agents", "sessions=2", "turns=3", "system=256", "observation=128", "phases.turn.max_tokens=24"),
)
# Budgets of silence a quarter of the usual ones; engines and kvstress share two cores.
_QUICK = ("--time-scale", "0.25")


def _healthy(name: str, engine: str, flags: str, seeds: int) -> Setting:
    return Setting(name=name, engine=engine, flags=flags, sends=_SHORT, seeds=range(seeds), words=_QUICK)


HEALTHY = (
    _healthy("transformers", "transformers", "--cb-num-blocks 512", 4),
    _healthy("llama-hybrid-slots", "llama.cpp", "hybrid.gguf --ctx-size 16384 --parallel 4", 7),
    _healthy("llama-hybrid-unified", "llama.cpp", "hybrid.gguf --ctx-size 32768 --parallel 4 --kv-unified", 7),
    _healthy("vllm-float32", "vllm", "--dtype float32 --kv-cache-memory-bytes 67108864", 4),
    _healthy("vllm-bfloat16", "vllm", "--dtype bfloat16 --kv-cache-memory-bytes 67108864", 4),
    _healthy("llama-gemma", "llama.cpp", "gemma.gguf --ctx-size 8192 --parallel 2", 1),
)

# A hybrid model keeps recurrent state in snapshots beside its pages: longer prompts, each pair of servers fresh.
_RECURRENT = (
    _sends("resend", "contexts=512,1k,2k", steps=9),
    _sends("poolwrap", "contexts=1k,2k", "prompts=10", "rounds=3", "logprobs=3"),
    _sends(
        "agents",
        *("sessions=4", "turns=6", "system=512", "observation=256", "logprobs=3"),
        *("aside.cold=24", "aside.max_requests=40"),
    ),
    _sends("fuzz", "operations=180", "longest=2k"),
)


def _hybrid(name: str, flags: str) -> Setting:
    return Setting(
        name=name,
        engine="llama.cpp",
        flags=f"hybrid.gguf {flags}",
        sends=_RECURRENT,
        seeds=range(2),
        twin=True,
        words=_QUICK,
    )


HYBRID = (
    _hybrid("one-slot", "--ctx-size 8192 --parallel 1"),
    _hybrid("four-slots", "--ctx-size 16384 --parallel 4"),
    _hybrid("one-pool", "--ctx-size 16384 --parallel 4 --kv-unified"),
    _hybrid("few-snapshots", "--ctx-size 16384 --parallel 2 --ctx-checkpoints 1"),
    _hybrid("little-ram", "--ctx-size 16384 --parallel 2 --cache-ram 1"),
    _hybrid("small-batches", "--ctx-size 16384 --parallel 2 --batch-size 96 --ubatch-size 32"),
)

CAMPAIGNS: dict[str, tuple[Setting, ...]] = {"healthy": HEALTHY, "hybrid": HYBRID}
