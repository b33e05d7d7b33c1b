"""Extract in plain torch: read slots of all layers into token-major items.

Owns: the meaning of the op, the mirror of inject without any turn.
Does not own: engines whose cache is not readable in place (the CPU backend packs it; capture there
wraps the writer instead).
Invariant: extracting what inject wrote with delta 0 gives the same bits, for caches of the model's
own dtype.
"""

from __future__ import annotations

import torch
from torch import Tensor

from inferscale_kernels.caches import CacheTable
from inferscale_kernels.layout import item_shape, k_plane, v_plane


def extract(caches: CacheTable, slots: Tensor, out: Tensor) -> Tensor:
    """Read every layer's K and V at `slots`.

    Args:
        caches: one strided view per layer; fp8 is multiplied by its scale.
        slots: int64 [T], or [G, T] for several KV groups; all ≥ 0.
        out: [T, L, 2, H, D] (or MLA [T, L, 1, C]), model dtype, contiguous.

    Returns:
        `out`.

    Raises:
        ValueError: shapes do not fit, or a slot is negative.
    """
    shape = item_shape(out)
    if (shape.tokens, shape.layers) != (slots.shape[-1], caches.num_layers):
        raise ValueError(
            f"out holds {shape.tokens} tokens of {shape.layers} layers; there are "
            f"{slots.shape[-1]} slots and {caches.num_layers} cache views"
        )
    if caches.views[0].shape[-1] != shape.cache_width:
        raise ValueError(
            f"out has {shape.cache_width} channels per head, the caches "
            f"{caches.views[0].shape[-1]}: they are of another model"
        )
    if bool((slots < 0).any()):
        raise ValueError("a slot is negative, so its KV is not in the cache: extract less")
    keys, values = k_plane(out), v_plane(out)
    for layer in range(shape.layers):
        of_layer = caches.slots_of(slots, layer)
        both = caches.read(layer, of_layer, out.dtype, shape.head_dim)
        keys[:, layer].copy_(both[..., : shape.head_dim])
        values[:, layer].copy_(both[..., shape.head_dim :])
    return out


def empty_items(
    caches: CacheTable, tokens: int, dtype: torch.dtype, *, latent: bool = False
) -> Tensor:
    """An uninitialised `out` for `extract`; `latent` for MLA caches, which hold no V."""
    view = caches.views[0]
    heads, width = view.shape[1], view.shape[3]
    tail = (1, width) if latent else (2, heads, width // 2)
    return torch.empty(tokens, caches.num_layers, *tail, dtype=dtype, device=view.device)
