"""The shape of a stored item.

Owns: the names of the axes. Does not own: the bytes, or how they are compressed (ops/quantize).
Invariant: token-major, so an item, or any slice of its tokens, is one memcpy, and a staging buffer
of many items is their concatenation.
"""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor


class ItemShape(NamedTuple):
    """Axes of a staging buffer: [T, L, 2, H, D], or [T, L, 1, C] for MLA (K only, one head)."""

    tokens: int
    layers: int
    heads: int
    head_dim: int
    has_values: bool

    @property
    def cache_width(self) -> int:
        """Channels of one cached (token, head): K|V, or the latent alone."""
        return self.head_dim * (2 if self.has_values else 1)


def item_shape(items: Tensor) -> ItemShape:
    """Read the axes off a staging buffer.

    Raises:
        ValueError: the buffer has neither form, or is not contiguous.
    """
    shape = tuple(items.shape)
    if not items.is_contiguous():
        raise ValueError("items are not contiguous: stage them token-major, one after another")
    if len(shape) == 5 and shape[2] == 2:
        return ItemShape(shape[0], shape[1], shape[3], shape[4], True)
    if len(shape) == 4 and shape[2] == 1:
        return ItemShape(shape[0], shape[1], 1, shape[3], False)
    raise ValueError(f"items have shape {shape}: give [T, L, 2, H, D], or [T, L, 1, C] for MLA")


def k_plane(items: Tensor) -> Tensor:
    """K of a staging buffer, [T, L, H, D]."""
    return items[:, :, 0] if items.dim() == 5 else items


def v_plane(items: Tensor) -> Tensor:
    """V of a staging buffer, [T, L, H, D]; of width 0 for MLA."""
    return items[:, :, 1] if items.dim() == 5 else items[..., :0]
