"""Which evidence each oracle and each coverage key lives on, and the sentence for when a server does not give it.

A clause is a set of alternatives, of which one is enough; all clauses must hold. What is missing is said
in the same words by `doctor` before a run and by the judge after one.
"""

from kvstress.core.features import Features

Clause = tuple[str, ...]

_MISSING: dict[str, str] = {
    "streams": "it does not stream",
    "usage": "answers carry no usage",
    "cached_tokens": "usage does not tell cached_tokens",
    "hits": "an immediate resend was not answered from the cache",
    "salt": "cache_salt does not make it answer from cold",
    "bypass": "cache_prompt: false does not make it answer from cold",
    "logprobs": "it gives no log-probabilities",
    "shaped": "it kept no promised JSON schema",
    "tools": "it did not call a forced tool",
    "health": "there is no /health page",
    "metrics": "there is no metrics page",
    "context": "/v1/models announces no context length",
    "running": "no metric tells how many requests run",
    "generation_tokens": "no counter of generated tokens",
    "prompt_tokens": "no counter of prompt tokens",
    "requests_completed": "no counter of completed requests",
    "prefix_hits": "no counter of prefix-cache hits",
    "kv_capacity": "the size of the KV pool is not told",
    "kv_free": "no gauge of free KV tokens",
    "kv_usage": "no gauge of the KV pool's usage",
    "evictions": "no eviction counter",
    "preemptions": "no preemption counter",
    "aborts": "no abort counter",
    "drafts": "no counter of draft tokens",
    "tiers": "no counter of a host or disk tier",
}

ORACLE_NEEDS: dict[str, tuple[Clause, ...]] = {
    "STATUS": (),
    "STREAM": (("streams",),),
    "LIVENESS": (),
    "SURVIVAL": (),
    "HEALTH": (("health",),),
    "METRIC": (("metrics",),),
    "USAGE": (("usage",),),
    "LOGPROB": (("logprobs",),),
    "EMPTY": (("usage",),),
    "DEGEN": (),
    "CACHEDTOK": (("cached_tokens",),),
    "STRUCT": (("shaped", "tools"),),
    "ADMIT": (("context", "kv_capacity"),),
    "BLAST": (),
    "ABORT": (("running", "generation_tokens"),),
    "QUIESCE": (("running", "kv_capacity"),),
    "RECONCILE": (("usage",), ("generation_tokens", "prompt_tokens", "requests_completed")),
    "FOREIGN": (),
    "CANARY": (),
    "COLDWARM": (("logprobs",),),
    "STREAMEQ": (("streams",),),
    "SEQBATCH": (),
    "ORDER": (),
    "PRESSURE": (("kv_usage", "kv_free", "preemptions", "evictions", "kv_capacity"),),
    "TREND": (),
    "RESIDUE": (("usage",),),
}

KEY_NEEDS: dict[str, tuple[Clause, ...]] = {
    "hit": (("cached_tokens", "prefix_hits"),),
    "full": (("kv_free", "kv_usage", "kv_capacity", "evictions", "preemptions"),),
    "evicted": (("evictions", "kv_free", "cached_tokens"),),
    "aborted": (("aborts", "running"), ("aborts", "generation_tokens")),
    "speculating": (("drafts",),),
    "tier": (("tiers",),),
}

# What is known of a key's evidence beside its presence: it can be there and still not show the thing.
CAUTIONS: dict[tuple[str, str], str] = {
    ("vllm", "full"): "its usage gauge counts running requests only: a pool full of reusable pages reads 0 at idle",
    ("vllm", "evicted"): "it has no eviction counter: an eviction shows only when an old prompt is sent again",
    ("llama.cpp", "full"): "/slots tells what running requests hold: the pool reads full only while one fills it",
    (
        "llama.cpp",
        "evicted",
    ): "prompts that leave a slot are kept in the host's memory, unless it runs with --cache-ram 0",
    (
        "vllm",
        "aborted",
    ): "its abort counter leaves out clients that hang up: generation that stops short shows an abort",
}


def missing(clauses: tuple[Clause, ...], features: Features) -> str | None:
    """The evidence that is missing, in a sentence; None when there is enough."""
    unmet = [clause for clause in clauses if not any(map(features.has, clause))]
    lacking = dict.fromkeys(name for clause in unmet for name in clause if not features.has(name))
    return "; ".join(_MISSING[name] for name in lacking) or None


def evidence_for(key: str) -> str:
    """All that could have shown coverage `key`, as missing; empty for a key that is none."""
    return missing(KEY_NEEDS.get(key, ()), Features()) or ""
