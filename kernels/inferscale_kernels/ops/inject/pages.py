"""Turned KV straight into the packed pages of vLLM's CPU attention (`layer.isa` "vec").

Owns: one compiled pass from items where they lie to the cache: K column-major `[D, N]`, V row-major
`[N, D]`, per block and head.
Does not own: whether a cache has this layout. The caller compares with the backend's own writer
before it relies on it.
Invariant: bytes equal to `rotate_items_into` followed by that writer; slots that are negative, and
all others, keep what they hold.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from inferscale_kernels.ops.inject.contract import Buffer
from inferscale_kernels.ops.inject.cpu import in_threads
from inferscale_kernels.ops.inject.loop import RowGeometry
from inferscale_kernels.ops.inject.loop_pages import page_loop
from inferscale_kernels.ops.inject.simd import Kind
from inferscale_kernels.rope import NOPE, RopeTable


@dataclass(frozen=True)
class Pages:
    """The caches of all layers.

    Args:
        caches: one contiguous `[B, H, N, 2·D]` bf16 or fp16 view per layer.
        groups: which row of the slots each layer goes by.

    Raises:
        ValueError: a cache has another form.
    """

    caches: Sequence[Tensor]
    groups: Sequence[int]

    def __post_init__(self) -> None:
        for cache in self.caches:
            dense = cache.stride()[2:] == (cache.shape[3], 1)
            if cache.dim() != 4 or not dense or cache.dtype not in (torch.bfloat16, torch.float16):
                raise ValueError(
                    f"cache is {cache.dtype} {tuple(cache.shape)}, strides {cache.stride()}: "
                    "give bf16 or fp16 [B, H, N, 2·D] with dense pages"
                )

    def table(self) -> np.ndarray[Any, Any]:
        """int64 [L, 4]: address, bytes from block to block and from head to head, group."""
        rows = [
            (c.data_ptr(), c.stride(0) * c.itemsize, c.stride(1) * c.itemsize, group)
            for c, group in zip(self.caches, self.groups, strict=True)
        ]
        return np.array(rows, np.int64)


def inject_items_into(
    items: Sequence[Buffer], segments: Tensor, slots: Tensor, rope: RopeTable, pages: Pages
) -> None:
    """Fill cache slots from items.

    Args:
        items: `[T, L, 2, H, D]` bytes of one item per segment.
        segments: int64 `[S, 4]`: source row, tokens, shift, target row; targets follow
            each other from row 0.
        slots: int64 `[G, T_out]`; negative = not written.
        rope: rotary geometry of all layers.
        pages: where the tokens go.

    Raises:
        ValueError: an item is too short, or targets leave gaps.
    """
    _, heads, block_size, width = pages.caches[0].shape
    layers, itemsize = len(pages.caches), pages.caches[0].itemsize
    rope.check(layers, width // 2)
    table = segments.numpy()
    token_bytes = layers * heads * width * itemsize
    _check(items, table, slots, token_bytes)
    if not len(table):
        return
    counts = table[:, 1]
    bases = [np.frombuffer(item, np.uint8).__array_interface__["data"][0] for item in items]
    inside = np.arange(counts.sum()) - np.repeat(table[:, 3], counts)
    rows = np.repeat(table[:, 0], counts) + inside
    sources = np.repeat(np.array(bases, np.int64), counts) + rows * token_bytes
    turns = rope.turns(segments[:, 2])
    starts = turns.data_ptr() + np.arange(len(table)) * turns[0].nbytes
    starts = np.repeat(np.where(table[:, 2] == 0, 0, starts), counts)
    angles = [NOPE if row == NOPE else row * turns[0, 0].nbytes for row in rope.rows]
    loop = page_loop(_geometry(heads, width // 2, rope, pages.caches[0].dtype), block_size)
    args = (sources, starts, np.array(angles, np.int64), slots.numpy(), pages.table())
    in_threads(loop, args, len(sources), len(sources) * token_bytes)


def _check(
    items: Sequence[Buffer], table: np.ndarray[Any, Any], slots: Tensor, token_bytes: int
) -> None:
    ends = np.cumsum(table[:, 1])
    if len(items) != len(table) or not np.array_equal(table[:, 3], ends - table[:, 1]):
        raise ValueError("give one item per segment, and targets that follow each other from row 0")
    if slots.shape[1] != (ends[-1] if len(ends) else 0) or not slots.is_contiguous():
        raise ValueError(f"slots are {tuple(slots.shape)}: give one dense row per target and group")
    for item, row in zip(items, table, strict=True):
        size = item.nbytes if hasattr(item, "nbytes") else len(item)
        if row[0] < 0 or row[1] < 0 or (row[0] + row[1]) * token_bytes > size:
            raise ValueError("a segment reads past the end of its item: give rows of that item")


def _geometry(heads: int, head_dim: int, rope: RopeTable, dtype: torch.dtype) -> RowGeometry:
    kind: Kind = "bf16" if dtype == torch.bfloat16 else "fp16"
    pairs, is_neox = rope.rotary_dim // 2, rope.is_neox
    return RowGeometry(heads, 2 * head_dim, 2 * rope.offset, pairs, kind, is_neox)
