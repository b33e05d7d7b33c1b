"""The compiled CPU loop for compressed items: decode a head in L1, turn it, round it once.

Owns: the order of visits and the addresses of codes and scales. Does not own: their layout
(ops/quantize), vector arithmetic (simd.py).
Invariant: bit-equal to the reference.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from inferscale_kernels.ops.inject.loop import TILE_TOKENS
from inferscale_kernels.ops.inject.simd import (
    LANES,
    Kind,
    bf16_at,
    decode_int4,
    decode_int8,
    round_to,
    turn_pairs,
)
from inferscale_kernels.ops.quantize.reference import GROUP

Step = Callable[..., None]


class CodeGeometry(NamedTuple):
    """One model's heads, and where a token's planes start (see ops/quantize)."""

    heads: int
    head_dim: int
    offset: int
    pairs: int
    dtype: Kind
    is_neox: bool
    planes: tuple[int, int, int, int]
    v_groups: int
    is_int4: bool


@lru_cache(maxsize=16)
def decoding_loop(geometry: CodeGeometry) -> Callable[..., None]:
    """The loop for one model and format, compiled at its first call.

    Returns:
        `loop(first, last, table, bases, turns, rows, static, ones, out)`: as `rotation_loop`'s,
        and the addresses of the static K scales fp32 [L, H, D] and of fp32 ones [D]. `out` has
        address and layer stride of K, and of V.
    """
    heads, dim, *_ = geometry
    v_codes, k_scales, v_scales, token_bytes = geometry.planes
    has_values, row_bytes = geometry.v_groups > 0, 2 * heads * dim
    turn_head, round_head = _turn_head(geometry), _in_vectors(round_to, dim, geometry.dtype)
    decode_k, decode_v = _decode_int8(dim), _decode_v(geometry)
    v_bytes, v_groups = (dim // 2 if geometry.is_int4 else dim), geometry.v_groups

    @njit(nogil=True, error_model="numpy")  # type: ignore[untyped-decorator]
    def loop(
        first: int,
        last: int,
        table: Any,
        bases: Any,
        turns: Any,
        rows: Any,
        static: int,
        ones: int,
        out: Any,
    ) -> None:
        k_at, k_stride, v_at, v_stride = out
        head_floats, done = np.empty(dim, np.float32), 0
        scratch = head_floats.ctypes.data
        for s in range(table.shape[0]):
            begin, end = max(0, first - done), min(table[s, 1], last - done)
            done += table[s, 1]
            for tile in range(begin, end, TILE_TOKENS):
                for line in range(len(rows) * heads):
                    layer, at = line // heads, 2 * (line % heads) * dim
                    turned = table[s, 2] != 0 and rows[layer] >= 0
                    for i in range(tile, min(end, tile + TILE_TOKENS)):
                        token = bases[s] + (table[s, 0] + i) * token_bytes
                        target = (table[s, 3] + i) * row_bytes + at
                        scale = bf16_at(token + k_scales + 2 * line)
                        decode_k(scratch, token + line * dim, static + 4 * line * dim, scale)
                        k = k_at + layer * k_stride + target
                        if turned:
                            turn_head(k, scratch, turns[s] + rows[layer])
                        else:
                            round_head(k, scratch)
                        if has_values:
                            scales = token + v_scales + 2 * v_groups * line
                            decode_v(scratch, token + v_codes + line * v_bytes, ones, scales)
                            round_head(v_at + layer * v_stride + target, scratch)

    compiled: Callable[..., None] = loop
    return compiled


def _in_vectors(make: Callable[..., Step], count: int, kind: Kind) -> Step:
    """Round `count` floats into `dst`."""
    step, tail = make(LANES, kind), make(1, kind)
    whole = count - count % LANES

    @njit(nogil=True, error_model="numpy")  # type: ignore[untyped-decorator]
    def run(dst: int, src: int) -> None:
        for j in range(0, whole, LANES):
            step(dst + 2 * j, src + 4 * j)
        for j in range(whole, count):
            tail(dst + 2 * j, src + 4 * j)

    compiled: Step = run
    return compiled


def _decode_int8(count: int) -> Step:
    """Decode `count` codes with one scale into floats."""
    step, tail = decode_int8(LANES), decode_int8(1)
    whole = count - count % LANES

    @njit(nogil=True, error_model="numpy")  # type: ignore[untyped-decorator]
    def run(dst: int, src: int, static: int, scale: float) -> None:
        for j in range(0, whole, LANES):
            step(dst + 4 * j, src + j, static + 4 * j, scale)
        for j in range(whole, count):
            tail(dst + 4 * j, src + j, static + 4 * j, scale)

    compiled: Step = run
    return compiled


def _decode_v(geometry: CodeGeometry) -> Step:
    """Decode a head of V; `scales` is the address of its bf16 scales."""
    dim = geometry.head_dim
    if not geometry.is_int4:
        decode = _decode_int8(dim)

        @njit(nogil=True, error_model="numpy")  # type: ignore[untyped-decorator]
        def run_int8(dst: int, src: int, ones: int, scales: int) -> None:
            decode(dst, src, ones, bf16_at(scales))

        compiled: Step = run_int8
        return compiled
    # Vectors may not cross a group of scales, in either half of the head.
    lanes = LANES if dim // 2 % LANES == 0 else 1
    low, high = decode_int4(lanes, False), decode_int4(lanes, True)

    @njit(nogil=True, error_model="numpy")  # type: ignore[untyped-decorator]
    def run_int4(dst: int, src: int, ones: int, scales: int) -> None:
        for j in range(0, dim // 2, lanes):
            upper = dim // 2 + j
            low(dst + 4 * j, src + j, bf16_at(scales + 2 * (j // GROUP)))
            high(dst + 4 * upper, src + j, bf16_at(scales + 2 * (upper // GROUP)))

    compiled = run_int4
    return compiled


def _turn_head(geometry: CodeGeometry) -> Step:
    """Turn a head's floats into `dst`; unrotated channels are rounded; cos at `turn`, then sin."""
    pairs, dtype, interleaved = geometry.pairs, geometry.dtype, not geometry.is_neox
    step = turn_pairs(LANES, "fp32", dtype, interleaved)
    tail = turn_pairs(1, "fp32", dtype, interleaved)
    stride, whole, offset = (2 if interleaved else 1), pairs - pairs % LANES, geometry.offset
    is_partial = 2 * pairs != geometry.head_dim
    round_head = _in_vectors(round_to, geometry.head_dim, dtype)

    @njit(nogil=True, error_model="numpy")  # type: ignore[untyped-decorator]
    def run(dst: int, src: int, turn: int) -> None:
        if is_partial:
            round_head(dst, src)
        for j in range(0, whole, LANES):
            o, cos = offset + j * stride, turn + 4 * j
            step(dst + 2 * o, 2 * pairs, src + 4 * o, 4 * pairs, cos, cos + 4 * pairs)
        for j in range(whole, pairs):
            o, cos = offset + j * stride, turn + 4 * j
            tail(dst + 2 * o, 2 * pairs, src + 4 * o, 4 * pairs, cos, cos + 4 * pairs)

    compiled: Step = run
    return compiled
