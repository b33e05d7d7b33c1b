"""The CPU path of inject: one compiled pass over the items for all layers.

Owns: the compiled loop (numba: no C compiler on the user's machine) and its threads.
Does not own: the meaning of the op (reference.py), or writing the engine's packed cache (its own
writer does that, layer by layer).
Invariant: bit-equal to the reference, for bf16 and fp16.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from numba import njit
from torch import Tensor

from inferscale_kernels.layout import ItemShape, item_shape
from inferscale_kernels.ops.inject.contract import Buffer, RotatedKV, check_items
from inferscale_kernels.ops.inject.simd import copy_bytes, turn_pairs
from inferscale_kernels.rope import NOPE, RopeTable
from inferscale_kernels.segments import check_segments

DTYPES = (torch.bfloat16, torch.float16)
"""Dtypes the compiled loop serves; others take the reference."""

_SMALL_BYTES = 1 << 20
"""Below this one thread is faster: handing work to another costs some 30 µs."""

_bf16_neox, _bf16_neox_1 = turn_pairs(16, True, False), turn_pairs(1, True, False)
_bf16_gptj, _bf16_gptj_1 = turn_pairs(16, True, True), turn_pairs(1, True, True)
_fp16_neox, _fp16_neox_1 = turn_pairs(16, False, False), turn_pairs(1, False, False)
_fp16_gptj, _fp16_gptj_1 = turn_pairs(16, False, True), turn_pairs(1, False, True)


@njit(nogil=True, error_model="numpy", cache=True)  # type: ignore[untyped-decorator]
def _turn_head(dst: int, src: int, half: int, turn: int, is_bf16: bool, is_neox: bool) -> None:
    """Turn `half` pairs at address `src` into `dst`; cos is at `turn`, sin behind it."""
    gap, j = 2 * half, 0
    while j + 16 <= half:
        near, far, cos, sin = 2 * j, 4 * j, turn + 4 * j, turn + 4 * (half + j)
        if is_neox and is_bf16:
            _bf16_neox(dst + near, src + near, gap, cos, sin)
        elif is_neox:
            _fp16_neox(dst + near, src + near, gap, cos, sin)
        elif is_bf16:
            _bf16_gptj(dst + far, src + far, gap, cos, sin)
        else:
            _fp16_gptj(dst + far, src + far, gap, cos, sin)
        j += 16
    while j < half:
        near, far, cos, sin = 2 * j, 4 * j, turn + 4 * j, turn + 4 * (half + j)
        if is_neox and is_bf16:
            _bf16_neox_1(dst + near, src + near, gap, cos, sin)
        elif is_neox:
            _fp16_neox_1(dst + near, src + near, gap, cos, sin)
        elif is_bf16:
            _bf16_gptj_1(dst + far, src + far, gap, cos, sin)
        else:
            _fp16_gptj_1(dst + far, src + far, gap, cos, sin)
        j += 1


@njit(nogil=True, error_model="numpy", cache=True)  # type: ignore[untyped-decorator]
def _rotate_token(dst: int, src: int, turn: int, row_bytes: int, geometry: Any) -> None:
    """Turn one token's heads of one layer."""
    head_bytes, start, half, is_bf16, is_neox = geometry
    if 4 * half != head_bytes:
        copy_bytes(dst, src, row_bytes)
    for head in range(start, row_bytes, head_bytes):
        _turn_head(dst + head, src + head, half, turn, is_bf16 != 0, is_neox != 0)


@njit(nogil=True, error_model="numpy", cache=True)  # type: ignore[untyped-decorator]
def _rotate_tokens(
    first: int, last: int, table: Any, bases: Any, turns: Any, rows: Any, geometry: Any, out: Any
) -> None:
    """All layers of the table's tokens `first` to `last`, counted over its segments."""
    k_at, k_stride, v_at, v_stride, row_bytes, layer_bytes = out
    layers, done = len(rows), 0
    for s in range(table.shape[0]):
        for i in range(max(0, first - done), min(table[s, 1], last - done)):
            token = bases[s] + (table[s, 0] + i) * layers * layer_bytes
            offset = (table[s, 3] + i) * row_bytes
            for layer in range(layers):
                src = token + layer * layer_bytes
                dst = k_at + layer * k_stride + offset
                if layer_bytes != row_bytes:
                    copy_bytes(v_at + layer * v_stride + offset, src + row_bytes, row_bytes)
                if table[s, 2] == 0 or rows[layer] < 0:
                    copy_bytes(dst, src, row_bytes)
                else:
                    _rotate_token(dst, src, turns[s] + rows[layer], row_bytes, geometry)
        done += table[s, 1]


def rotate_into(staging: Tensor, segments: Tensor, rope: RopeTable, out: RotatedKV) -> None:
    """`reference.rotate_into` for a bf16 or fp16 staging buffer in CPU memory."""
    shape = item_shape(staging)
    table = check_segments(segments, shape.tokens, out.k.shape[1])
    bases = np.full(table.shape[0], staging.data_ptr(), dtype=np.int64)
    _run(bases, table, shape, rope, out)


def rotate_items_into(
    items: list[Buffer], segments: Tensor, rope: RopeTable, out: RotatedKV
) -> None:
    """`reference.rotate_items_into` without a staging copy: items are read where they lie."""
    shape, table, order = check_items(items, segments, out)
    addresses = [np.frombuffer(item, np.uint8).__array_interface__["data"][0] for item in items]
    bases = np.array(addresses, dtype=np.int64)[order.numpy()]
    _run(bases, table, shape, rope, out)


def _run(
    bases: np.ndarray[Any, Any], table: Tensor, shape: ItemShape, rope: RopeTable, out: RotatedKV
) -> None:
    rope.check(shape.layers, shape.head_dim)
    turns, half = rope.turns(table[:, 2]), rope.rotary_dim // 2
    turn_bytes = 2 * half * turns.itemsize
    starts = turns.data_ptr() + np.arange(len(bases)) * rope.inv_freq.shape[0] * turn_bytes
    rows = np.array([NOPE if row == NOPE else row * turn_bytes for row in rope.rows], np.int64)
    row_bytes = out.k.itemsize * shape.heads * shape.head_dim
    geometry = (
        *(out.k.itemsize * shape.head_dim, out.k.itemsize * rope.offset, half),
        *(int(out.k.dtype == torch.bfloat16), int(rope.is_neox)),
    )
    target = (
        *(address for kv in out for address in (kv.data_ptr(), kv.stride(0) * kv.itemsize)),
        *(row_bytes, row_bytes * (2 if shape.has_values else 1)),
    )
    _in_threads(table.numpy(), (bases, starts, rows, geometry, target))


def _in_threads(table: np.ndarray[Any, Any], args: tuple[Any, ...]) -> None:
    *_, layer_bytes = args[-1]
    tokens = int(table[:, 1].sum())
    small = tokens * layer_bytes * len(args[2]) < _SMALL_BYTES
    threads = 1 if small else torch.get_num_threads()
    cuts = [tokens * i // threads for i in range(threads + 1)]
    waiting = [
        _pool(threads - 1).submit(_rotate_tokens, cuts[i], cuts[i + 1], table, *args)
        for i in range(1, threads)
    ]
    _rotate_tokens(0, cuts[1], table, *args)
    for future in waiting:
        future.result()


@lru_cache(maxsize=1)
def _pool(workers: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(workers, "inferscale-rotate", initializer=_free_from_pinning)


def _free_from_pinning() -> None:
    """Let this thread run wherever the process may.

    An engine that pins its main thread to one core would have every thread born of it share that
    core. The cores of all its threads together are what it was given.
    """
    if not hasattr(os, "sched_setaffinity"):
        return
    cores: set[int] = set()
    for thread in os.listdir("/proc/self/task"):
        try:
            cores |= os.sched_getaffinity(int(thread))
        except ProcessLookupError:
            continue
    os.sched_setaffinity(0, cores)
