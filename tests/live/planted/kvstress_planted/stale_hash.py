"""An evicted block keeps its entry in the prefix cache, so a later prompt is answered out of another's block.

The block itself forgets its hash and is filled anew, as in a healthy vLLM; only the map from hash to block still leads
to it. It fires when a look-up returns a block that has since been given another content.
"""

from collections.abc import Callable

from vllm.v1.core import block_pool


def plant(fired: Callable[[str], None]) -> None:
    """Arm it in this process."""
    healthy = block_pool.BlockPool.get_cached_block

    def keep_entries(pool, block):
        hashes = [block.block_hash] if block.block_hash is not None else []
        hashes += pool.cached_block_hashes_by_block.pop(block.block_id, ())
        if hashes:
            block.reset_hash()
        return hashes

    def look_up(pool, block_hash, groups):
        found = healthy(pool, block_hash, groups)
        for group, block in zip(groups, found or (), strict=False):
            if block.block_hash != block_pool.make_block_hash_with_group_id(block_hash, group):
                fired(f"block {block.block_id} answered for a hash that it no longer holds")
        return found

    block_pool.BlockPool._remove_cached_block_hashes = keep_entries
    block_pool.BlockPool.get_cached_block = look_up
