"""Blocks are handed out again with NaN bytes in them, and attention multiplies the masked tail of the last block by 0.

0 times NaN is NaN. A first use is clean, so nothing happens until blocks are used again; a block that is filled to its
last row has no dirty tail. It fires when a NaN of a tail reaches an output.
"""

from collections.abc import Callable

import torch
from vllm.v1.attention.backends import cpu_attn
from vllm.v1.worker.cpu_worker import CPUWorker

_PARTS = 2


def plant(fired: Callable[[str], None]) -> None:
    """Arm it in this process."""
    used: set[int] = set()
    work, attend = CPUWorker.execute_model, cpu_attn.CPUAttentionBackendImpl.forward

    def execute_model(worker, step):
        for block in _handed_out(step, worker.cache_config.block_size):
            if block in used:
                _soil(worker.model_runner.kv_caches, block)
            used.add(block)
        return work(worker, step)

    def forward(backend, layer, query, key, value, kv_cache, metadata, output, *rest, **named):
        answer = attend(backend, layer, query, key, value, kv_cache, metadata, output, *rest, **named)
        if metadata is not None:
            _add_masked_tails(kv_cache, metadata, output, fired)
        return answer

    CPUWorker.execute_model = execute_model
    cpu_attn.CPUAttentionBackendImpl.forward = forward


def _handed_out(step, block_size):
    """Blocks that a request received in this step without having them from the prefix cache."""
    for new in step.scheduled_new_reqs:
        yield from new.block_ids[0][new.num_computed_tokens // block_size :]
    for groups in step.scheduled_cached_reqs.new_block_ids:
        yield from groups[0] if groups else ()


def _soil(caches, block):
    for cache in caches:
        cache[block] = float("nan")


def _add_masked_tails(kv_cache, metadata, output, fired):
    """`output`: [tokens, heads * head size]; rows of a block hold keys and values in two halves."""
    rows = kv_cache.shape[2] * _PARTS
    values = kv_cache.view(kv_cache.shape[0], kv_cache.shape[1], rows, -1).chunk(_PARTS, dim=2)[1]
    starts = metadata.query_start_loc.tolist()
    for number, length in enumerate(metadata.seq_lens.tolist()):
        last, filled = divmod(length, kv_cache.shape[2])
        if not filled:
            continue
        block = int(metadata.block_table[number, last])
        tail = values[block, :, filled:].float().sum() * 0.0
        if torch.isnan(tail):
            fired(f"the dirty tail of block {block} reached an output")
            output[starts[number] : starts[number + 1]] += tail.to(output.dtype)
