"""What goes into and comes out of the rotation, whichever implementation serves it.

Owns: the output buffers, and validation of staging buffers and items.
Does not own: any arithmetic.
Invariant: after these checks an implementation reads and writes inside its buffers only.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from inferscale_kernels.layout import ItemShape, item_shape
from inferscale_kernels.ops.quantize.reference import ItemCodec
from inferscale_kernels.segments import check_segments

Buffer = bytes | bytearray | memoryview | np.ndarray[Any, Any]
"""An item where it lies, e.g. in the bank's memory map."""


class RotatedKV(NamedTuple):
    """K [L, T, H, D] and V [L, T, H, D] (V of width 0 for MLA), contiguous per layer."""

    k: Tensor
    v: Tensor


def empty_kv(staging: Tensor, tokens: int) -> RotatedKV:
    """Uninitialised outputs for `rotate_into`, for `tokens` target rows."""
    return empty_of(item_shape(staging), tokens, staging.dtype, staging.device)


def empty_of(
    shape: ItemShape, tokens: int, dtype: torch.dtype, device: torch.device | str = "cpu"
) -> RotatedKV:
    """`empty_kv` from a shape, such as a codec's."""
    rows = (shape.layers, tokens, shape.heads)
    v_dim = shape.head_dim if shape.has_values else 0
    k = torch.empty(*rows, shape.head_dim, dtype=dtype, device=device)
    return RotatedKV(k, torch.empty(*rows, v_dim, dtype=dtype, device=device))


def staged_shape(staging: Tensor, codec: ItemCodec | None) -> ItemShape:
    """Axes of a staging buffer, compressed or not.

    Raises:
        ValueError: the buffer has another form.
    """
    if codec is None:
        return item_shape(staging)
    wanted = (torch.uint8, 2, codec.token_bytes, True)
    found = (staging.dtype, staging.dim(), staging.shape[-1], staging.is_contiguous())
    if found != wanted:
        raise ValueError(f"staging is {found} (dtype, axes, bytes, contiguous), not {wanted}")
    return codec.shape._replace(tokens=staging.shape[0])


def check_items(
    items: Sequence[Buffer], segments: Tensor, out: RotatedKV, codec: ItemCodec | None = None
) -> tuple[ItemShape, Tensor, Tensor]:
    """Validate what `rotate_items_into` is given.

    Returns:
        The shape of one item (with the most tokens any has), the table sorted by target, and the
        order: row i of the sorted table was row `order[i]`.
    """
    layers, _, heads, head_dim = out.k.shape
    shape = ItemShape(0, layers, heads, head_dim, out.v.shape[-1] > 0)
    token_bytes = layers * heads * shape.cache_width * out.k.itemsize
    if codec is not None:
        if codec.shape != shape:
            raise ValueError(f"the codec is for {codec.shape}, the outputs for {shape}")
        token_bytes = codec.token_bytes
    sizes = [item.nbytes if hasattr(item, "nbytes") else len(item) for item in items]
    if len(sizes) != segments.shape[0] or any(size % token_bytes for size in sizes):
        raise ValueError(
            f"{len(sizes)} items for {segments.shape[0]} segments, sizes must be multiples of "
            f"{token_bytes} bytes per token: give one item of this model per segment"
        )
    longest = max(sizes, default=0) // token_bytes
    table = check_segments(segments, longest, out.k.shape[1])
    held = torch.tensor(sizes, dtype=torch.int64) // token_bytes
    if bool((segments[:, 0] + segments[:, 1] > held).any()):
        raise ValueError("a segment reads past the end of its item: give rows of that item")
    return shape._replace(tokens=longest), table, torch.argsort(segments[:, 3], stable=True)
