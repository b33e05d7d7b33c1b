"""Inject as one Triton launch per step: all segments of all requests, all layers.

Owns: the kernel and its launcher. Does not own: the meaning (reference.py).
Invariant: reads each stored byte once, writes each cached byte once, and is bit-equal to the
reference.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import torch
import triton
import triton.language as tl
from torch import Tensor

from inferscale_kernels.caches import CacheTable
from inferscale_kernels.layout import item_shape
from inferscale_kernels.ops.tiles import cached_rows, round_to, to_fp8_bits
from inferscale_kernels.rope import RopeTable
from inferscale_kernels.segments import check_segments

CHANNELS_PER_PROGRAM = 2048
"""16 per thread at 4 warps: two 16-byte loads of each plane in flight per thread."""


@triton.jit
def put(p_dst, value, m, scale, FP8: tl.constexpr):
    """Store values of the items' dtype, through fp8 if the cache is."""
    if FP8:
        tl.store(p_dst, to_fp8_bits(value.to(tl.float32), scale), mask=m)
    else:
        tl.store(p_dst, value, mask=m)


@triton.jit
def _copy_channels(
    p_src, p_dst, m_row, scale, WIDTH: tl.constexpr, PADDED: tl.constexpr, FP8: tl.constexpr
):
    """Copy WIDTH channels of every row."""
    o_c = tl.arange(0, PADDED)
    m = m_row[:, None] & (o_c < WIDTH)[None, :]
    put(
        p_dst[:, None] + o_c[None, :], tl.load(p_src[:, None] + o_c[None, :], mask=m), m, scale, FP8
    )


@triton.jit
def turn(a, b, cos, sin, moved):
    """Rotate pairs in fp32, round once; unmoved pairs keep their bits."""
    x, y = a.to(tl.float32), b.to(tl.float32)
    turned_a = round_to(x * cos - y * sin, a.dtype)
    turned_b = round_to(y * cos + x * sin, b.dtype)
    return tl.where(moved, turned_a, a), tl.where(moved, turned_b, b)


@triton.jit
def _turn_channels(
    p_src,
    p_dst,
    m_row,
    p_turn,
    moved,
    scale,
    HALF: tl.constexpr,
    PADDED: tl.constexpr,
    IS_NEOX: tl.constexpr,
    FP8: tl.constexpr,
):
    """Turn the HALF pairs of every row; cos is at `p_turn`, sin behind it."""
    o_h = tl.arange(0, PADDED)
    m_h = o_h < HALF
    cos = tl.load(p_turn + o_h, mask=m_h, other=0.0)[None, :]
    sin = tl.load(p_turn + HALF + o_h, mask=m_h, other=0.0)[None, :]
    if IS_NEOX:
        m = m_row[:, None] & m_h[None, :]
        o_pair = o_h[None, :]
        a = tl.load(p_src[:, None] + o_pair, mask=m)
        b = tl.load(p_src[:, None] + HALF + o_pair, mask=m)
        a, b = turn(a, b, cos, sin, moved)
        put(p_dst[:, None] + o_pair, a, m, scale, FP8)
        put(p_dst[:, None] + HALF + o_pair, b, m, scale, FP8)
    else:
        o_c = tl.arange(0, 2 * PADDED)
        m = m_row[:, None] & (o_c < 2 * HALF)[None, :]
        both = tl.load(p_src[:, None] + o_c[None, :], mask=m)
        a, b = tl.split(tl.reshape(both, (both.shape[0], PADDED, 2)))
        a, b = turn(a, b, cos, sin, moved)
        both = tl.reshape(tl.join(a, b), (both.shape[0], 2 * PADDED))
        put(p_dst[:, None] + o_c[None, :], both, m, scale, FP8)


@triton.jit
def inject_kernel(
    items,
    tiles,
    turns,
    slots,
    layers,
    scales,
    rope_rows,
    num_slots,
    L: tl.constexpr,
    H: tl.constexpr,
    D: tl.constexpr,
    HAS_V: tl.constexpr,
    HALF: tl.constexpr,
    OFFSET: tl.constexpr,
    FREQS: tl.constexpr,
    IS_NEOX: tl.constexpr,
    FP8: tl.constexpr,
    ALIGN: tl.constexpr,
    ROWS: tl.constexpr,
    HALF_P: tl.constexpr,
    REST_P: tl.constexpr,
    D_P: tl.constexpr,
):
    """One program moves one tile (tokens of one segment) of one layer, all heads."""
    i_tile, i_layer = tl.program_id(0).to(tl.int64), tl.program_id(1).to(tl.int64)
    source, target = tl.load(tiles + i_tile * 4), tl.load(tiles + i_tile * 4 + 1)
    count, segment = tl.load(tiles + i_tile * 4 + 2), tl.load(tiles + i_tile * 4 + 3)
    o_row = tl.arange(0, ROWS)
    token, head = o_row // H, o_row % H
    ELEMENT: tl.constexpr = tl.uint8 if FP8 else items.dtype.element_ty
    p_dst, m_row = cached_rows(
        layers, slots, num_slots, i_layer, target, token, head, token < count, ELEMENT, ALIGN
    )
    PLANES: tl.constexpr = 2 if HAS_V else 1
    p_src = items + ((source + token) * L + i_layer) * (PLANES * H * D) + head * D
    k_scale, v_scale = 1.0, 1.0
    if FP8:
        k_scale, v_scale = tl.load(scales + i_layer * 2), tl.load(scales + i_layer * 2 + 1)
    row = tl.load(rope_rows + i_layer)
    moved = (segment >= 0) & (row >= 0)
    p_turn = turns + (tl.maximum(segment, 0) * FREQS + tl.maximum(row, 0)) * (2 * HALF)
    _turn_channels(
        p_src + OFFSET, p_dst + OFFSET, m_row, p_turn, moved, k_scale, HALF, HALF_P, IS_NEOX, FP8
    )
    if REST_P > 0:
        REST: tl.constexpr = D - 2 * HALF
        SKIP: tl.constexpr = 0 if OFFSET > 0 else 2 * HALF
        _copy_channels(p_src + SKIP, p_dst + SKIP, m_row, k_scale, REST, REST_P, FP8)
    if HAS_V:
        _copy_channels(p_src + H * D, p_dst + D, m_row, v_scale, D, D_P, FP8)


def inject(
    staging: Tensor, segments: Tensor, slots: Tensor, rope: RopeTable, caches: CacheTable
) -> None:
    """`reference.inject` without a codec, asynchronously on the device of the caches.

    `segments` belongs on the CPU, where it is validated and cut into tiles.
    """
    shape = item_shape(staging)
    rope.check(shape.layers, shape.head_dim)
    table = check_segments(segments, shape.tokens, slots.shape[-1])
    constants = kernel_constants(
        *(shape.layers, shape.heads, shape.head_dim, shape.has_values), rope, caches.is_fp8
    )
    device = caches.views[0].device
    tiles = cut_tiles(table, max(1, constants["ROWS"] // shape.heads))
    if tiles.shape[0] == 0:
        return
    inject_kernel[(tiles.shape[0], shape.layers)](
        staging,
        tiles.to(device, non_blocking=True),
        rope.turns(table[:, 2]).to(device, non_blocking=True),
        slots.to(device, non_blocking=True),
        caches.pointers,
        caches.scale_table,
        rows_on(rope.rows, str(device)),
        slots.shape[-1],
        **constants,
        ALIGN=caches.alignment,
        num_warps=4,
        enable_fp_fusion=False,  # so that products round as the reference's do
    )


def kernel_constants(
    layers: int, heads: int, head_dim: int, has_values: bool, rope: RopeTable, is_fp8: bool
) -> dict[str, Any]:
    """Compile-time constants for one model, but for the caches' alignment.

    Raises:
        ValueError: the rotated channels are neither the first nor the last of a head.
    """
    half, offset = rope.rotary_dim // 2, rope.offset
    rest = head_dim - 2 * half
    if offset not in (0, rest):
        raise ValueError(
            f"rotated channels start at {offset} of {head_dim}: the Triton kernel needs them first "
            "or last; use the reference op for this model"
        )
    half_p, d_p = triton.next_power_of_2(half), triton.next_power_of_2(head_dim)
    return {
        **{"L": layers, "H": heads, "D": head_dim, "HAS_V": has_values},
        **{"HALF": half, "OFFSET": offset, "FREQS": rope.inv_freq.shape[0]},
        **{"IS_NEOX": rope.is_neox, "FP8": is_fp8},
        # At least 4 rows: a lone row of an odd head size would leave threads without channels.
        "ROWS": max(CHANNELS_PER_PROGRAM // d_p, triton.next_power_of_2(heads), 4),
        "HALF_P": half_p,
        "REST_P": triton.next_power_of_2(rest) if rest else 0,
        "D_P": d_p,
    }


def cut_tiles(table: Tensor, tokens: int) -> Tensor:
    """Cut segments into tiles of at most `tokens`.

    Returns:
        int64 [tiles, 4]: source row, target row, tokens, segment (−1 where nothing moves).
    """
    source, count, delta, target = table.numpy().T
    pieces = -(-count // tokens)
    segment = np.repeat(np.arange(len(count)), pieces)
    first = np.repeat(np.cumsum(pieces) - pieces, pieces)
    start = (np.arange(len(segment)) - first) * tokens
    size = np.minimum(tokens, count[segment] - start)
    turned = np.where(delta[segment] == 0, -1, segment)
    tiles = np.stack((source[segment] + start, target[segment] + start, size, turned), axis=1)
    return torch.from_numpy(np.ascontiguousarray(tiles, dtype=np.int64))


@lru_cache(maxsize=8)
def rows_on(rows: tuple[int, ...], device: str) -> Tensor:
    """The layers' rope rows as int64 [L] on a device, uploaded once."""
    return torch.tensor(rows, dtype=torch.int64, device=device)
