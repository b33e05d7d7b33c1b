"""Which implementation of inject serves a call.

Owns: the choice. Does not own: any of the implementations, or the engine's self-test, which may
switch the fused kernel off.
Invariant: the choice changes time, never bits.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence

import torch
from torch import Tensor

from inferscale_kernels.caches import CacheTable
from inferscale_kernels.layout import ItemShape
from inferscale_kernels.ops.inject import reference
from inferscale_kernels.ops.inject.contract import Buffer, RotatedKV, empty_kv, empty_of
from inferscale_kernels.ops.quantize.reference import ItemCodec
from inferscale_kernels.rope import RopeTable
from inferscale_kernels.segments import segment_table, target_tokens

HAS_COMPILED_LOOP = importlib.util.find_spec("numba") is not None
"""numba comes with vLLM; without it the CPU path is the reference."""

HAS_TRITON = importlib.util.find_spec("triton") is not None
"""Triton comes with torch for CUDA."""


def rotate(staging: Tensor, segments: Tensor, rope: RopeTable) -> RotatedKV:
    """`reference.rotate`, by the fastest way there is."""
    out = empty_kv(staging, target_tokens(segments))
    rotate_into(staging, segments, rope, out)
    return out


def rotate_into(
    staging: Tensor,
    segments: Tensor,
    rope: RopeTable,
    out: RotatedKV,
    codec: ItemCodec | None = None,
) -> None:
    """`reference.rotate_into`, by the fastest way there is."""
    if staging.is_cuda or not _compiled(out):
        reference.rotate_into(staging, segments, rope, out, codec)
        return
    from inferscale_kernels.ops.inject import cpu

    cpu.rotate_into(staging, segments, rope, out, codec)


def rotate_items_into(
    items: Sequence[Buffer],
    segments: Tensor,
    rope: RopeTable,
    out: RotatedKV,
    codec: ItemCodec | None = None,
) -> None:
    """`reference.rotate_items_into`, by the fastest way there is."""
    if not _compiled(out):
        reference.rotate_items_into(items, segments, rope, out, codec)
        return
    from inferscale_kernels.ops.inject import cpu

    cpu.rotate_items_into(list(items), segments, rope, out, codec)


def inject(
    staging: Tensor,
    segments: Tensor,
    slots: Tensor,
    rope: RopeTable,
    caches: CacheTable,
    codec: ItemCodec | None = None,
) -> None:
    """`reference.inject`: on CUDA as one fused launch, which does not wait for the device."""
    if caches.views[0].device.type != "cuda" or not HAS_TRITON:
        reference.inject(staging, segments, slots, rope, caches, codec)
        return
    if codec is None:
        from inferscale_kernels.ops.inject import triton

        triton.inject(staging, segments, slots, rope, caches)
        return
    from inferscale_kernels.ops.inject import triton_codes

    triton_codes.inject_codes(staging, segments, slots, rope, caches, codec)


def prepare(
    shape: ItemShape, rope: RopeTable, dtype: torch.dtype, codec: ItemCodec | None = None
) -> None:
    """Compile the CPU loop for a model now (under a second), not in its first request.

    With a codec, the loop that reads its format; its scales may be any.
    """
    segment = segment_table([(0, 1, 1, 0)])
    if codec is not None:
        staging = torch.zeros(1, codec.token_bytes, dtype=torch.uint8)
        rotate_into(staging, segment, rope, empty_of(codec.shape, 1, dtype), codec)
        return
    tail = (2, shape.heads, shape.head_dim) if shape.has_values else (1, shape.head_dim)
    rotate(torch.zeros(1, shape.layers, *tail, dtype=dtype), segment, rope)


def _compiled(out: RotatedKV) -> bool:
    """The compiled loop serves 2-byte floats in CPU memory, dense within a layer."""
    if not HAS_COMPILED_LOOP or out.k.device.type != "cpu":
        return False
    dense = all(tensor[0].is_contiguous() for tensor in out if tensor.shape[0])
    return dense and out.k.dtype in (torch.bfloat16, torch.float16)
