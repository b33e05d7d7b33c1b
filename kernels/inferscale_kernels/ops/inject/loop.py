"""The compiled loop of the CPU path (numba: no C compiler on the user's machine).

Owns: the order in which bytes are visited. Does not own: vector arithmetic (simd.py), threads.
Invariant: addresses and sizes are in bytes, and were checked by the caller.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

from numba import njit

from inferscale_kernels.ops.inject.simd import LANES, Kind, copy_bytes, turn_pairs

TILE_TOKENS = 32
"""Tokens of one segment that are done layer by layer. One token at a time visits 2 × layers
output streams in turn, which costs 30 % more; a whole item of some 20 tokens stays in L2."""


class RowGeometry(NamedTuple):
    """One token's K of one layer: `pairs` turned pairs of each head, from byte `start` on."""

    heads: int
    head_bytes: int
    start: int
    pairs: int
    dtype: Kind
    is_neox: bool


@lru_cache(maxsize=16)
def rotation_loop(geometry: RowGeometry) -> Callable[..., None]:
    """The loop for one model, compiled at its first call.

    Its sizes are constants of the code: with sizes as arguments it takes twice as long.

    Returns:
        `loop(first, last, table, bases, turns, rows, out)`: all layers of the table's tokens
        `first` to `last`, counted over its segments. `table` int64 [S, 4]; `bases`, `turns`
        int64 [S], address of a segment's source rows and of its cos, with sin behind it; `rows`
        int64 [L], offset of a layer's cos, negative without RoPE; `out`: address and layer stride
        of K, the same of V, bytes of a row (K of a token and layer), of a stored layer.
    """
    turn_row = turn_row_step(geometry)
    row_bytes = geometry.heads * geometry.head_bytes

    @njit(nogil=True, error_model="numpy")  # type: ignore[untyped-decorator]
    def loop(
        first: int, last: int, table: Any, bases: Any, turns: Any, rows: Any, out: Any
    ) -> None:
        k_at, k_stride, v_at, v_stride, layer_bytes = out
        token_bytes, done = len(rows) * layer_bytes, 0
        for s in range(table.shape[0]):
            begin, end = max(0, first - done), min(table[s, 1], last - done)
            done += table[s, 1]
            for tile in range(begin, end, TILE_TOKENS):
                for layer in range(len(rows)):
                    src = bases[s] + (table[s, 0] + tile) * token_bytes + layer * layer_bytes
                    offset = (table[s, 3] + tile) * row_bytes
                    k, v = k_at + layer * k_stride + offset, v_at + layer * v_stride + offset
                    turned = table[s, 2] != 0 and rows[layer] >= 0
                    for _ in range(min(TILE_TOKENS, end - tile)):
                        if layer_bytes != row_bytes:
                            copy_bytes(v, src + row_bytes, row_bytes)
                        if turned:
                            turn_row(k, src, turns[s] + rows[layer])
                        else:
                            copy_bytes(k, src, row_bytes)
                        src, k, v = src + token_bytes, k + row_bytes, v + row_bytes

    compiled: Callable[..., None] = loop
    return compiled


def turn_row_step(geometry: RowGeometry) -> Callable[[int, int, int], None]:
    """A step that turns one token's heads of one layer; cos is at `turn`, sin behind it."""
    heads, head_bytes, start, pairs, dtype, is_neox = geometry
    step = turn_pairs(LANES, dtype, dtype, not is_neox)
    tail_step = turn_pairs(1, dtype, dtype, not is_neox)
    pair_bytes, gap = (2 if is_neox else 4), 2 * pairs
    whole = pairs - pairs % LANES
    is_partial = 4 * pairs != head_bytes

    @njit(nogil=True, error_model="numpy")  # type: ignore[untyped-decorator]
    def turn_row(dst: int, src: int, turn: int) -> None:
        if is_partial:
            copy_bytes(dst, src, heads * head_bytes)
        for head in range(heads):
            at = start + head * head_bytes
            for j in range(0, whole, LANES):
                o, cos = at + j * pair_bytes, turn + 4 * j
                step(dst + o, gap, src + o, gap, cos, cos + 4 * pairs)
            for j in range(whole, pairs):
                o, cos = at + j * pair_bytes, turn + 4 * j
                tail_step(dst + o, gap, src + o, gap, cos, cos + 4 * pairs)

    compiled: Callable[[int, int, int], None] = turn_row
    return compiled
