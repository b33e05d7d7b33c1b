"""Keeps approximate KV out of vLLM's exact prefix cache.

vLLM names a cached block by the token ids up to its end. A block that holds injected KV, or was
computed behind some, must have another name, or a later request for the same tokens would be served
it. Owns that naming, for as long as the request lives: the block that the prompt leaves half full
is named only when generated tokens fill it, and it overlaps injected KV all the same.
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
        request: vLLM's scheduler-side `Request`; its block hashes and its hasher are replaced.
        spans: spans that may be injected, ascending. The captured prefix counts as well: it was
            computed in another batch, and bit-equality of exact requests must not depend on us.
        start: block-aligned number of tokens that the exact cache holds now; they keep their names.
        block_size: tokens per hashed block.
        hash_function: the engine's block hash function.
    """
    if not spans or not compat.has_block_hasher(request):
        return
    first = max(spans[0].start, start) // block_size
    del request.block_hashes[first:]
    compat.set_block_hasher(request, _Hasher(tuple(spans), block_size, hash_function))
    request.update_block_hashes()


class _Hasher:
    """Names new full blocks of one request: vLLM's chain, overlapping spans as extra keys."""

    def __init__(
        self, spans: tuple[Span, ...], block_size: int, hash_function: Callable[[Any], bytes]
    ) -> None:
        self._spans = spans
        self._block_size = block_size
        self._hash_function = hash_function

    def __call__(self, request: Any) -> list[bytes]:
        size, known = self._block_size, len(request.block_hashes)
        parent = request.block_hashes[-1] if known else None
        names: list[bytes] = []
        for begin in range(known * size, request.num_tokens - size + 1, size):
            keys = compat.block_extra_keys(request, begin, begin + size) + self._keys(begin)
            tokens = request.all_token_ids[begin : begin + size]
            parent = compat.hash_block(self._hash_function, parent, tokens, keys or None)
            names.append(parent)
        return names

    def _keys(self, begin: int) -> tuple[tuple[str, str, int], ...]:
        end = begin + self._block_size
        return tuple(
            ("inferscale", span.key, span.start - begin)
            for span in self._spans
            if span.start < end and span.end > begin
        )
