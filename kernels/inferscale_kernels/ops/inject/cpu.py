"""The CPU path of inject: one compiled pass over the items for all layers.

Owns: addresses and threads for the compiled loop (loop.py).
Does not own: the meaning of the op (reference.py), or writing the engine's packed cache (its own
writer does that, layer by layer).
Invariant: bit-equal to the reference, for bf16 and fp16.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from inferscale_kernels.layout import ItemShape, item_shape
from inferscale_kernels.ops.inject.contract import Buffer, RotatedKV, check_items
from inferscale_kernels.ops.inject.loop import RowGeometry, rotation_loop
from inferscale_kernels.rope import NOPE, RopeTable
from inferscale_kernels.segments import check_segments

DTYPES = (torch.bfloat16, torch.float16)
"""Dtypes the compiled loop serves; others take the reference."""

_SMALL_BYTES = 1 << 20
"""Below this one thread is faster: handing work to another costs some 30 µs."""


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
    size, turns = out.k.itemsize, rope.turns(table[:, 2])
    turn_bytes = turns[0, 0].nbytes
    starts = turns.data_ptr() + np.arange(len(bases)) * rope.inv_freq.shape[0] * turn_bytes
    rows = np.array([NOPE if row == NOPE else row * turn_bytes for row in rope.rows], np.int64)
    geometry = RowGeometry(
        *(shape.heads, size * shape.head_dim, size * rope.offset, rope.rotary_dim // 2),
        *("bf16" if out.k.dtype == torch.bfloat16 else "fp16", rope.is_neox),
    )
    target = (
        *(address for kv in out for address in (kv.data_ptr(), kv.stride(0) * size)),
        size * shape.heads * shape.cache_width,
    )
    args = (table.numpy(), bases, starts, rows, target)
    tokens = int(table[:, 1].sum())
    _in_threads(rotation_loop(geometry), args, tokens, tokens * shape.layers * target[-1])


def _in_threads(
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
