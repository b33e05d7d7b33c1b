"""Extract as one Triton launch: slots of all layers into token-major items.

Owns: the kernel and its launcher. Does not own: the meaning (reference.py).
Invariant: reads each cached byte once and writes each stored byte once; bit-equal to the reference.
"""

from __future__ import annotations

from typing import Any

import triton
import triton.language as tl
from torch import Tensor

from inferscale_kernels.caches import CacheTable
from inferscale_kernels.layout import item_shape
from inferscale_kernels.ops.tiles import cached_rows, from_fp8_bits, round_to

CHANNELS_PER_PROGRAM = 4096


@triton.jit
def _read_channels(
    p_src, p_dst, m_row, scale, WIDTH: tl.constexpr, PADDED: tl.constexpr, FP8: tl.constexpr
):
    """Copy WIDTH channels of every row, through fp32 if the cache is fp8."""
    o_c = tl.arange(0, PADDED)
    m = m_row[:, None] & (o_c < WIDTH)[None, :]
    value = tl.load(p_src[:, None] + o_c[None, :], mask=m, other=0)
    if FP8:
        value = round_to(from_fp8_bits(value, scale), p_dst.dtype.element_ty)
    tl.store(p_dst[:, None] + o_c[None, :], value, mask=m)


@triton.jit
def extract_kernel(
    items,
    slots,
    layers,
    scales,
    num_slots,
    L: tl.constexpr,
    H: tl.constexpr,
    D: tl.constexpr,
    HAS_V: tl.constexpr,
    FP8: tl.constexpr,
    ALIGN: tl.constexpr,
    ROWS: tl.constexpr,
    D_P: tl.constexpr,
):
    """One program reads up to ROWS // H tokens of one layer, all heads."""
    i_tile, i_layer = tl.program_id(0).to(tl.int64), tl.program_id(1).to(tl.int64)
    target = i_tile * (ROWS // H)
    o_row = tl.arange(0, ROWS)
    token, head = o_row // H, o_row % H
    m_row = (token < ROWS // H) & (target + token < num_slots)
    ELEMENT: tl.constexpr = tl.uint8 if FP8 else items.dtype.element_ty
    p_src, m_row = cached_rows(
        layers, slots, num_slots, i_layer, target, token, head, m_row, ELEMENT, ALIGN
    )
    PLANES: tl.constexpr = 2 if HAS_V else 1
    p_dst = items + ((target + token) * L + i_layer) * (PLANES * H * D) + head * D
    k_scale, v_scale = 1.0, 1.0
    if FP8:
        k_scale, v_scale = tl.load(scales + i_layer * 2), tl.load(scales + i_layer * 2 + 1)
    _read_channels(p_src, p_dst, m_row, k_scale, D, D_P, FP8)
    if HAS_V:
        _read_channels(p_src + D, p_dst + H * D, m_row, v_scale, D, D_P, FP8)


def extract(caches: CacheTable, slots: Tensor, out: Tensor) -> Tensor:
    """`reference.extract`, asynchronously on the device of the caches.

    Rows of negative slots keep what they held: checking would wait for the device.
    """
    shape = item_shape(out)
    if (shape.tokens, shape.layers) != (slots.shape[-1], caches.num_layers):
        raise ValueError(
            f"out holds {shape.tokens} tokens of {shape.layers} layers; there are "
            f"{slots.shape[-1]} slots and {caches.num_layers} cache views"
        )
    if shape.tokens == 0:
        return out
    constants = extract_constants(
        *(shape.layers, shape.heads, shape.head_dim, shape.has_values), caches.is_fp8
    )
    grid = (triton.cdiv(shape.tokens, constants["ROWS"] // shape.heads), shape.layers)
    extract_kernel[grid](
        out,
        slots.to(out.device, non_blocking=True),
        caches.pointers,
        caches.scale_table,
        slots.shape[-1],
        **constants,
        ALIGN=caches.alignment,
        num_warps=4,
        enable_fp_fusion=False,
    )
    return out


def extract_constants(
    layers: int, heads: int, head_dim: int, has_values: bool, is_fp8: bool
) -> dict[str, Any]:
    """Compile-time constants for one model, but for the caches' alignment."""
    d_p = triton.next_power_of_2(head_dim)
    return {
        **{"L": layers, "H": heads, "D": head_dim, "HAS_V": has_values, "FP8": is_fp8},
        "ROWS": max(CHANNELS_PER_PROGRAM // d_p, triton.next_power_of_2(heads)),
        "D_P": d_p,
    }
