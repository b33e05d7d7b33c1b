"""Triton helpers that inject and extract share: which rows a program owns, where they are cached.

Owns: the flattening of (token, head) into rows, slot addressing, fp8 bits.
Does not own: what is done with a row.
Invariant: every address is formed in int64; a row outside its tile, or with a negative slot, is
masked.
"""

from __future__ import annotations

import triton
import triton.language as tl

FP8_MAX = tl.constexpr(448.0)
INTERPRETED = tl.constexpr(triton.knobs.runtime.interpret)


@triton.jit
def cached_rows(
    layers,
    slots,
    num_slots,
    i_layer,
    target,
    token,
    head,
    m_row,
    ELEMENT: tl.constexpr,
    ALIGN: tl.constexpr,
):
    """Pointers to channel 0 of each row's place in a layer's cache, and which rows have one.

    `layers` is int64 [L, 6]: base address, strides of block, head and token in elements, tokens
    per block, row of the slot list. ALIGN elements divide the base and all strides.
    """
    p_layer = layers + i_layer * 6
    base = tl.load(p_layer).to(tl.pointer_type(ELEMENT))
    base = tl.multiple_of(base, 16 if ALIGN > 1 else 1)
    s_block = tl.multiple_of(tl.load(p_layer + 1), ALIGN)
    s_head = tl.multiple_of(tl.load(p_layer + 2), ALIGN)
    s_token = tl.multiple_of(tl.load(p_layer + 3), ALIGN)
    per_block = tl.load(p_layer + 4)
    p_slot = slots + tl.load(p_layer + 5) * num_slots + target + token
    slot = tl.load(p_slot, mask=m_row, other=-1)
    m_cached = m_row & (slot >= 0)
    slot = tl.where(m_cached, slot, 0)
    block, offset = slot // per_block, slot % per_block
    return base + (block * s_block + head * s_head + offset * s_token), m_cached


@triton.jit
def round_to(x, DTYPE: tl.constexpr):
    """fp32 → DTYPE, to nearest even as the hardware does it."""
    if INTERPRETED and tl.bfloat16 == DTYPE:
        # Triton's interpreter truncates: round first, so that there is nothing to cut off.
        bits = x.to(tl.int32, bitcast=True)
        bits = (bits + 0x7FFF + ((bits >> 16) & 1)) & -65536
        x = tl.where(x == x, bits.to(tl.float32, bitcast=True), x)
    return x.to(DTYPE)


@triton.jit
def to_fp8_bits(x, scale):
    """float8_e4m3fn of x / scale as uint8: nearest even, saturating, NaN kept.

    By integers, because sm_80 has no conversion; bit-equal to the hardware's and to torch's.
    """
    x = tl.div_rn(x, tl.zeros_like(x) + scale)
    nan = x != x
    magnitude = tl.minimum(tl.abs(x), FP8_MAX)
    bits = magnitude.to(tl.int32, bitcast=True)
    # Normal: drop 20 mantissa bits with rounding, rebias the exponent from 127 to 7.
    normal = (bits + 0x7FFFF + ((bits >> 20) & 1) - (120 << 23)) >> 20
    # Subnormal: adding 2^14 leaves the result, in units of 2^-9, in the low mantissa bits.
    small = (magnitude + 16384.0).to(tl.int32, bitcast=True) - 0x46800000
    code = tl.where(bits < (121 << 23), small, normal)
    code = tl.where(nan, 0x7F, code)
    sign = (x.to(tl.int32, bitcast=True) >> 24) & 0x80
    return (code | sign).to(tl.uint8)


@triton.jit
def from_fp8_bits(code, scale):
    """fp32 value of float8_e4m3fn bits, times scale."""
    code = code.to(tl.int32)
    magnitude = code & 0x7F
    # As fp32 exponent bits the value is 2^120 too small, subnormals included.
    value = (magnitude << 20).to(tl.float32, bitcast=True) * 1.329227995784916e36
    value = tl.where(magnitude == 0x7F, float("nan"), value)
    return tl.where(code >= 0x80, -value, value) * scale
