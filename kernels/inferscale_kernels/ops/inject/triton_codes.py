"""Inject of compressed items in one Triton launch: decode, turn, scatter, all layers.

Owns: the kernel for codes and its launcher. Does not own: the byte layout (ops/quantize), or what
it shares with the plain kernel (triton.py, ops/tiles.py).
Invariant: decoded values live in registers only, in fp32, and are rounded once.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from inferscale_kernels.caches import CacheTable
from inferscale_kernels.ops.inject.contract import staged_shape
from inferscale_kernels.ops.inject.triton import (
    cut_tiles,
    kernel_constants,
    put,
    rows_on,
    turn,
)
from inferscale_kernels.ops.quantize.reference import GROUP, ItemCodec
from inferscale_kernels.ops.tiles import cached_rows, round_to
from inferscale_kernels.rope import RopeTable
from inferscale_kernels.segments import check_segments

GROUP_C = tl.constexpr(GROUP)


@triton.jit
def _decode(p_codes, p_static, step, o_c, m):
    """fp32 K of the channels `o_c`: code × (static scale × token scale)."""
    code = tl.load(p_codes[:, None] + o_c, mask=m, other=0).to(tl.float32)
    return code * (tl.load(p_static[:, None] + o_c, mask=m, other=0.0) * step[:, None])


@triton.jit
def _turn_codes(
    p_codes,
    p_static,
    step,
    p_dst,
    m_row,
    p_turn,
    moved,
    scale,
    OUT: tl.constexpr,
    HALF: tl.constexpr,
    PADDED: tl.constexpr,
    IS_NEOX: tl.constexpr,
    FP8: tl.constexpr,
):
    """Decode and turn the HALF pairs of every row."""
    o_h = tl.arange(0, PADDED)
    m_h = o_h < HALF
    cos = tl.load(p_turn + o_h, mask=m_h, other=0.0)[None, :]
    sin = tl.load(p_turn + HALF + o_h, mask=m_h, other=0.0)[None, :]
    if IS_NEOX:
        m = m_row[:, None] & m_h[None, :]
        o_pair = o_h[None, :]
        a = _decode(p_codes, p_static, step, o_pair, m)
        b = _decode(p_codes, p_static, step, HALF + o_pair, m)
        a, b = turn(a, b, cos, sin, moved)
        put(p_dst[:, None] + o_pair, round_to(a, OUT), m, scale, FP8)
        put(p_dst[:, None] + HALF + o_pair, round_to(b, OUT), m, scale, FP8)
    else:
        o_c = tl.arange(0, 2 * PADDED)
        m = m_row[:, None] & (o_c < 2 * HALF)[None, :]
        both = _decode(p_codes, p_static, step, o_c[None, :], m)
        a, b = tl.split(tl.reshape(both, (both.shape[0], PADDED, 2)))
        a, b = turn(a, b, cos, sin, moved)
        both = tl.reshape(tl.join(a, b), (both.shape[0], 2 * PADDED))
        put(p_dst[:, None] + o_c[None, :], round_to(both, OUT), m, scale, FP8)


@triton.jit
def _nibbles(
    p_codes,
    p_scales,
    p_dst,
    m_row,
    scale,
    OUT: tl.constexpr,
    D: tl.constexpr,
    PADDED: tl.constexpr,
    FP8: tl.constexpr,
):
    """Decode V from int4: channel j in the low, j + D/2 in the high nibble."""
    o_c = tl.arange(0, PADDED)[None, :]
    m = m_row[:, None] & (o_c < D // 2)
    packed = tl.load(p_codes[:, None] + o_c, mask=m, other=0).to(tl.uint8, bitcast=True)
    for high in tl.static_range(2):
        channel = o_c + high * (D // 2)
        step = tl.load(p_scales[:, None] + channel // GROUP_C, mask=m, other=0.0).to(tl.float32)
        code = ((packed >> (4 * high)) & 15).to(tl.float32) - 8.0
        put(p_dst[:, None] + channel, round_to(code * step, OUT), m, scale, FP8)


@triton.jit
def inject_codes_kernel(
    codes,
    k_static,
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
    OUT: tl.constexpr,
    V_CODES: tl.constexpr,
    K_SCALES: tl.constexpr,
    V_SCALES: tl.constexpr,
    TOKEN: tl.constexpr,
    V_GROUPS: tl.constexpr,
    V_BITS: tl.constexpr,
):
    """One program moves one tile (tokens of one segment) of one layer, all heads."""
    i_tile, i_layer = tl.program_id(0).to(tl.int64), tl.program_id(1).to(tl.int64)
    source, target = tl.load(tiles + i_tile * 4), tl.load(tiles + i_tile * 4 + 1)
    count, segment = tl.load(tiles + i_tile * 4 + 2), tl.load(tiles + i_tile * 4 + 3)
    o_row = tl.arange(0, ROWS)
    token, head = o_row // H, o_row % H
    ELEMENT: tl.constexpr = tl.uint8 if FP8 else OUT
    p_dst, m_row = cached_rows(
        layers, slots, num_slots, i_layer, target, token, head, token < count, ELEMENT, ALIGN
    )
    p_token = codes + (source + token) * TOKEN
    line = i_layer * H + head  # (layer, head) within a token's planes
    p_k, p_static = p_token + line * D, k_static + line * D
    p_scale = (p_token + K_SCALES).to(tl.pointer_type(tl.bfloat16)) + line
    step = tl.load(p_scale, mask=m_row, other=0.0).to(tl.float32)
    k_scale, v_scale = 1.0, 1.0
    if FP8:
        k_scale, v_scale = tl.load(scales + i_layer * 2), tl.load(scales + i_layer * 2 + 1)
    row = tl.load(rope_rows + i_layer)
    moved = (segment >= 0) & (row >= 0)
    p_turn = turns + (tl.maximum(segment, 0) * FREQS + tl.maximum(row, 0)) * (2 * HALF)
    _turn_codes(
        *(p_k + OFFSET, p_static + OFFSET, step, p_dst + OFFSET, m_row, p_turn, moved, k_scale),
        *(OUT, HALF, HALF_P, IS_NEOX, FP8),
    )
    if REST_P > 0:
        SKIP: tl.constexpr = 0 if OFFSET > 0 else 2 * HALF
        o_c = SKIP + tl.arange(0, REST_P)[None, :]
        m = m_row[:, None] & (o_c < SKIP + D - 2 * HALF)
        rest = round_to(_decode(p_k, p_static, step, o_c, m), OUT)
        put(p_dst[:, None] + o_c, rest, m, k_scale, FP8)
    if HAS_V:
        p_scale = (p_token + V_SCALES).to(tl.pointer_type(tl.bfloat16)) + line * V_GROUPS
        if V_BITS == 4:
            p_v = p_token + V_CODES + line * (D // 2)
            _nibbles(p_v, p_scale, p_dst + D, m_row, v_scale, OUT, D, D_P // 2, FP8)
        else:
            o_c = tl.arange(0, D_P)[None, :]
            m = m_row[:, None] & (o_c < D)
            step = tl.load(p_scale, mask=m_row, other=0.0).to(tl.float32)
            p_v = (p_token + V_CODES + line * D)[:, None] + o_c
            value = round_to(tl.load(p_v, mask=m, other=0).to(tl.float32) * step[:, None], OUT)
            put(p_dst[:, None] + D + o_c, value, m, v_scale, FP8)


def codec_constants(codec: ItemCodec, dtype: torch.dtype) -> dict[str, object]:
    """Compile-time constants of a codec's byte layout, and the dtype values are rounded to."""
    v_codes, k_scales, v_scales, token = codec.planes
    return {
        **{"OUT": tl.bfloat16 if dtype == torch.bfloat16 else tl.float16},
        **{"V_CODES": v_codes, "K_SCALES": k_scales, "V_SCALES": v_scales, "TOKEN": token},
        **{"V_GROUPS": codec.v_groups, "V_BITS": 4 if codec.name == "k8v4" else 8},
    }


def inject_codes(
    staging: Tensor,
    segments: Tensor,
    slots: Tensor,
    rope: RopeTable,
    caches: CacheTable,
    codec: ItemCodec,
) -> None:
    """`reference.inject` with a codec, asynchronously on the device of the caches."""
    shape = staged_shape(staging, codec)
    rope.check(shape.layers, shape.head_dim)
    table = check_segments(segments, shape.tokens, slots.shape[-1])
    constants = kernel_constants(
        *(shape.layers, shape.heads, shape.head_dim, shape.has_values), rope, caches.is_fp8
    )
    device = caches.views[0].device
    tiles = cut_tiles(table, max(1, constants["ROWS"] // shape.heads))
    if tiles.shape[0] == 0:
        return
    dtype = torch.bfloat16 if caches.is_fp8 else caches.views[0].dtype
    inject_codes_kernel[(tiles.shape[0], shape.layers)](
        staging.view(torch.int8),
        codec.k_scale.to(device),
        tiles.to(device, non_blocking=True),
        rope.turns(table[:, 2]).to(device, non_blocking=True),
        slots.to(device, non_blocking=True),
        caches.pointers,
        caches.scale_table,
        rows_on(rope.rows, str(device)),
        slots.shape[-1],
        **constants,
        **codec_constants(codec, dtype),
        ALIGN=caches.alignment,
        num_warps=4,
        enable_fp_fusion=False,
    )
