"""vLLM's prefix cache as far as forgetting goes: is a block of this name there, and out with it.

Owns the dealings with the block pool. Runs where vLLM's scheduler runs, between its own calls. A
block that a request uses loses its name only: that request reads on, and nobody else finds it.
"""

from collections.abc import Iterable
from typing import Any

from inferscale_vllm import compat


class PrefixCache:
    """The pool of one engine.

    Args:
        pool: vLLM's `BlockPool`.
        num_groups: KV cache groups; each has blocks of its own under the same names.
    """

    def __init__(self, pool: Any, num_groups: int) -> None:
        self._pool, self._groups = pool, range(num_groups)

    @property
    def block_size(self) -> int:
        """Tokens per name."""
        return int(self._pool.hash_block_size)

    @property
    def num_blocks(self) -> int:
        return int(self._pool.num_gpu_blocks)

    def holds(self, name: bytes) -> bool:
        """Whether a block of this name is cached, in any group."""
        return any(compat.cached_block(self._pool, name, group) for group in self._groups)

    def evict(self, names: Iterable[bytes]) -> int:
        """Takes the names from their blocks; returns how many blocks lost one.

        Blocks that nobody uses are the first that vLLM will write over.
        """
        count = 0
        for name in names:
            for group in self._groups:
                while block := compat.cached_block(self._pool, name, group):
                    compat.uncache(self._pool, block)
                    count += 1
        return count

    def clear(self) -> int:
        """Takes the name from every block, those in use included; returns how many."""
        named = [block for block in self._pool.blocks if block.block_hash is not None]
        for block in named:
            compat.uncache(self._pool, block)
        return len(named)
