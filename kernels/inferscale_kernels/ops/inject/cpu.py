"""The CPU path of inject: one compiled pass over the items for all layers.

Owns: addresses and threads for the compiled loop (loop.py).
Does not own: the meaning of the op (reference.py), or writing the engine's packed cache (its own
writer does that, layer by layer).
Invariant: bit-equal to the reference, for bf16 and fp16.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from inferscale_kernels.layout import ItemShape
from inferscale_kernels.ops.inject.contract import Buffer, RotatedKV, check_items, staged_shape
from inferscale_kernels.ops.inject.loop import RowGeometry, rotation_loop
from inferscale_kernels.ops.inject.loop_codes import CodeGeometry, decoding_loop
from inferscale_kernels.ops.inject.simd import Kind
from inferscale_kernels.ops.quantize.reference import ItemCodec
from inferscale_kernels.rope import NOPE, RopeTable
from inferscale_kernels.segments import check_segments
from inferscale_kernels.threads import free_from_pinning

DTYPES = (torch.bfloat16, torch.float16)
"""Dtypes the compiled loop serves; others take the reference."""

_SMALL_BYTES = 1 << 20
"""Below this one thread is faster: handing work to another costs some 30 µs."""


def rotate_into(
    staging: Tensor,
    segments: Tensor,
    rope: RopeTable,
    out: RotatedKV,
    codec: ItemCodec | None = None,
) -> None:
    """`reference.rotate_into` in CPU memory, for bf16 or fp16 outputs."""
    shape = staged_shape(staging, codec)
    table = check_segments(segments, shape.tokens, out.k.shape[1])
    bases = np.full(table.shape[0], staging.data_ptr(), dtype=np.int64)
    _run(bases, table, shape, rope, out, codec)


def rotate_items_into(
    items: list[Buffer],
    segments: Tensor,
    rope: RopeTable,
    out: RotatedKV,
    codec: ItemCodec | None = None,
) -> None:
    """`reference.rotate_items_into` without a staging copy: items are read where they lie."""
    shape, table, order = check_items(items, segments, out, codec)
    addresses = [np.frombuffer(item, np.uint8).__array_interface__["data"][0] for item in items]
    bases = np.array(addresses, dtype=np.int64)[order.numpy()]
    _run(bases, table, shape, rope, out, codec)


def _run(
    bases: np.ndarray[Any, Any],
    table: Tensor,
    shape: ItemShape,
    rope: RopeTable,
    out: RotatedKV,
    codec: ItemCodec | None,
) -> None:
    rope.check(shape.layers, shape.head_dim)
    if table.shape[0] == 0:
        return
    size, turns = out.k.itemsize, rope.turns(table[:, 2])
    turn_bytes = turns[0, 0].nbytes
    starts = turns.data_ptr() + np.arange(len(bases)) * rope.inv_freq.shape[0] * turn_bytes
    rows = np.array([NOPE if row == NOPE else row * turn_bytes for row in rope.rows], np.int64)
    target = tuple(address for kv in out for address in (kv.data_ptr(), kv.stride(0) * kv.itemsize))
    layer_bytes = size * shape.heads * shape.cache_width
    args: tuple[Any, ...] = (table.numpy(), bases, starts, rows)
    tokens = int(table[:, 1].sum())
    if codec is None:
        loop = rotation_loop(_row_geometry(shape, rope, out))
        args = (*args, (*target, layer_bytes))
    else:
        loop = decoding_loop(_code_geometry(shape, rope, out, codec))
        static, ones = codec.k_scale.contiguous(), torch.ones(shape.head_dim)
        args = (*args, static.data_ptr(), ones.data_ptr(), target)
    in_threads(loop, args, tokens, tokens * shape.layers * layer_bytes)


def _row_geometry(shape: ItemShape, rope: RopeTable, out: RotatedKV) -> RowGeometry:
    size = out.k.itemsize
    return RowGeometry(
        *(shape.heads, size * shape.head_dim, size * rope.offset, rope.rotary_dim // 2),
        *(_kind(out), rope.is_neox),
    )


def _code_geometry(
    shape: ItemShape, rope: RopeTable, out: RotatedKV, codec: ItemCodec
) -> CodeGeometry:
    return CodeGeometry(
        heads=shape.heads,
        head_dim=shape.head_dim,
        offset=rope.offset,
        pairs=rope.rotary_dim // 2,
        dtype=_kind(out),
        is_neox=rope.is_neox,
        planes=codec.planes,
        v_groups=codec.v_groups,
        is_int4=codec.name == "k8v4",
    )


def _kind(out: RotatedKV) -> Kind:
    return "bf16" if out.k.dtype == torch.bfloat16 else "fp16"


def in_threads(
    loop: Callable[..., None], args: tuple[Any, ...], tokens: int, size_bytes: int
) -> None:
    """Share the tokens among torch's number of threads."""
    threads = 1 if size_bytes < _SMALL_BYTES else torch.get_num_threads()
    cuts = [tokens * i // threads for i in range(threads + 1)]
    waiting = [
        _pool(threads - 1).submit(loop, cuts[i], cuts[i + 1], *args) for i in range(1, threads)
    ]
    loop(0, cuts[1], *args)
    for future in waiting:
        future.result()


@lru_cache(maxsize=1)
def _pool(workers: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(workers, "inferscale-rotate", initializer=free_from_pinning)
