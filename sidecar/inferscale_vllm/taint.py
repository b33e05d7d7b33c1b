"""Keeps approximate KV out of vLLM's exact prefix cache.

vLLM names a cached block by the token ids up to its end. A block that holds injected KV, or was
computed behind some, must have another name, or a later request for the same tokens would be served
it. Owns the re-chaining of `Request.block_hashes` (contract: vLLM
`kv_cache_utils.hash_block_tokens`; later blocks of the request chain from the last entry, so
generated blocks inherit the taint).
"""

from collections.abc import Callable, Sequence
from typing import Any

from inferscale_vllm import compat
from inferscale_vllm.plan import Span


def taint(
    request: Any,
    spans: Sequence[Span],
    *,
    start: int,
    block_size: int,
    hash_function: Callable[[Any], bytes],
) -> None:
    """Renames every block from the first at or behind token `start` that overlaps a span on.

    Blocks that overlap spans get `("inferscale", key, offset)` as extra keys, as vLLM does for
    images; later blocks differ through their parent only, so a chat's next turn with the same
    items still hits.

    Args:
        request: vLLM's scheduler-side `Request`; its `block_hashes` list is changed in place.
        spans: spans that may be injected, ascending. The captured prefix counts as well: it was
            computed in another batch, and bit-equality of exact requests must not depend on us.
        start: block-aligned number of tokens that the exact cache holds now; they keep their names.
        block_size: tokens per hashed block.
        hash_function: the engine's block hash function.
    """
    hashes = request.block_hashes
    if not spans:
        return
    first = max(spans[0].start, start) // block_size
    count = len(hashes)
    del hashes[first:]
    for index in range(first, count):
        begin, end = index * block_size, (index + 1) * block_size
        keys = compat.block_extra_keys(request, begin, end) + tuple(
            ("inferscale", span.key, span.start - begin)
            for span in spans
            if span.start < end and span.end > begin
        )
        parent = hashes[-1] if hashes else None
        tokens = request.all_token_ids[begin:end]
        hashes.append(compat.hash_block(hash_function, parent, tokens, keys or None))
