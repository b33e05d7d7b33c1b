"""Decides whether items may be written straight into the CPU backend's packed pages.

Owns the proof: for every layer, pages that the kernel fills must equal, byte for byte, those that
the backend's own writer fills. Anything unknown, or any difference, means the backend's writer.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch

from inferscale_kernels.ops.inject import HAS_COMPILED_LOOP, rotate
from inferscale_kernels.rope import RopeTable
from inferscale_vllm import cache_io
from inferscale_vllm.layers import AttentionLayers

_ISAS = ("vec", "vec16")
"""Page layouts that `inferscale_kernels.ops.inject.pages` writes; AMX machines have another."""
_NUM_TOKENS = 40
_SHIFT = 5


Fill = Callable[[Sequence[Any], torch.Tensor, torch.Tensor], None]
"""`fill(items, segments, slots)`: see `inferscale_kernels.ops.inject.pages.inject_items_into`."""


def direct_fill(
    layers: AttentionLayers,
    writers: Sequence[Callable[..., None]],
    rope: RopeTable,
    dtype: torch.dtype,
) -> Fill | None:
    """What fills the pages, or None if nothing but the backend's writer may. Scratch writes go to
    blocks 1 and 2.

    Args:
        layers: the model's layers, caches allocated and not in use.
        writers: the backend's cache writer of each layer.
        rope: their rotary geometry.
        dtype: model dtype, the dtype of stored items.
    """
    if not HAS_COMPILED_LOOP or not all(_may_be(module, dtype) for module in layers.modules):
        return None
    from inferscale_kernels.ops.inject.pages import Pages, inject_items_into

    caches = [module.kv_cache for module in layers.modules]
    try:
        pages = Pages(caches, layers.groups)
    except ValueError:
        return None
    for index, writer in enumerate(writers):
        if not _agrees(layers, index, writer, _of_layer(rope, index), dtype):
            return None
    return partial(inject_items_into, rope=rope, pages=pages)


def _may_be(module: Any, dtype: torch.dtype) -> bool:
    cache = module.kv_cache
    return (
        getattr(module, "isa", None) in _ISAS
        and cache.device.type == "cpu"
        and cache.dtype == dtype
        and len(cache) > 2
    )


def _of_layer(rope: RopeTable, index: int) -> RopeTable:
    return RopeTable(rope.inv_freq, rope.rows[index : index + 1], rope.is_neox, rope.offset)


def _agrees(
    layers: AttentionLayers,
    index: int,
    writer: Callable[..., None],
    rope: RopeTable,
    dtype: torch.dtype,
) -> bool:
    """One layer: the same tokens, turned, through both, over the border of two blocks."""
    from inferscale_kernels.ops.inject.pages import Pages, inject_items_into

    module = layers.modules[index]
    scratch, size = module.kv_cache[1:3], module.kv_cache.shape[2]
    generator = torch.Generator().manual_seed(index)
    shape = (_NUM_TOKENS, 1, 2, layers.num_kv_heads, layers.head_size)
    item = torch.randn(shape, generator=generator).to(dtype)
    segment = torch.tensor([[0, _NUM_TOKENS, _SHIFT, 0]])
    slots = torch.arange(2 * size - _NUM_TOKENS // 2, 2 * size + _NUM_TOKENS // 2)
    slots = torch.where(slots % 7 == 0, -1, slots.clamp(size, 3 * size - 1))
    turned, kept = rotate(item, segment, rope), slots >= 0
    scratch.zero_()
    cache_io.write(module, writer, turned.k[0][kept], turned.v[0][kept], slots[kept])
    wanted = scratch.clone()
    scratch.zero_()
    content: np.ndarray[Any, Any] = item.view(torch.uint8).numpy().reshape(-1)
    pages = Pages([module.kv_cache], [0])
    inject_items_into([content.data], segment, slots[None], rope, pages)
    agrees = torch.equal(scratch.view(torch.int16), wanted.view(torch.int16))
    scratch.zero_()
    return agrees
