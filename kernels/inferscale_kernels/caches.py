"""The paged KV cache of all layers, as strided views.

Owns: view checks, fp8 scales, slot → (block, offset), and the plain torch reader and writer.
Does not own: the memory (the engine does), or which slots belong to whom (the scheduler does).
Invariant: a negative slot is never read or written (the engine's padding, or a block that a
sliding window has let go of).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

FP8_MAX = 448.0
"""Largest finite float8_e4m3fn; larger values saturate, as the engine's own writer does."""


@dataclass(frozen=True)
class CacheTable:
    """One `[B, H, N, C]` view per layer: blocks, KV heads, tokens per block, K|V channels.

    Any strides are welcome, so one allocation for all layers in any physical order works. C is
    2 * head_dim (K then V), or latent + rope channels for MLA, which stores no V.

    Args:
        views: per layer; uint8 views are taken as float8_e4m3fn.
        k_scales, v_scales: per layer, for fp8 only: cache = value / scale.
        slot_rows: for each layer the row of a `[G, T]` slot list (engines with several KV groups,
            such as sliding-window models, have one block table per group). Empty: row 0.

    Raises:
        ValueError: views differ in heads or channels, or a list has another length.
    """

    views: tuple[Tensor, ...]
    k_scales: tuple[float, ...] = ()
    v_scales: tuple[float, ...] = ()
    slot_rows: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        as_fp8 = tuple(
            view.view(torch.float8_e4m3fn) if view.dtype == torch.uint8 else view
            for view in self.views
        )
        object.__setattr__(self, "views", as_fp8)
        shapes = {(view.dim(), view.shape[1], view.shape[-1], view.dtype) for view in as_fp8}
        if len(shapes) != 1 or next(iter(shapes))[0] != 4:
            raise ValueError(f"cache views differ: {shapes}; give one [B, H, N, C] view per layer")
        for name in ("k_scales", "v_scales", "slot_rows"):
            given = len(getattr(self, name))
            if given not in (0, len(as_fp8)):
                raise ValueError(f"{name} has {given} entries for {len(as_fp8)} layers")

    @classmethod
    def of(cls, views: Sequence[Tensor]) -> CacheTable:
        """A table of plain (not fp8) views that share one slot list."""
        return cls(tuple(views))

    @property
    def num_layers(self) -> int:
        """Number of layers."""
        return len(self.views)

    @property
    def is_fp8(self) -> bool:
        """Whether the cache holds float8_e4m3fn."""
        return self.views[0].dtype == torch.float8_e4m3fn

    @cached_property
    def pointers(self) -> Tensor:
        """int64 [L, 6] on the caches' device, for the kernels.

        Base address, strides of block, head and token in elements, tokens per block, slot row.
        """
        slot_rows = self.slot_rows or (0,) * self.num_layers
        rows = [
            (view.data_ptr(), *view.stride()[:3], view.shape[2], row)
            for view, row in zip(self.views, slot_rows, strict=True)
        ]
        return torch.tensor(rows, dtype=torch.int64, device=self.views[0].device)

    @cached_property
    def scale_table(self) -> Tensor:
        """fp32 [L, 2] on the caches' device: K and V scale."""
        scales = [self.scales(layer) for layer in range(self.num_layers)]
        return torch.tensor(scales, dtype=torch.float32, device=self.views[0].device)

    @cached_property
    def alignment(self) -> int:
        """Elements that divide every base and stride: those of 16 bytes, else 1."""
        per_vector = 16 // self.views[0].itemsize
        fits = all(
            view.data_ptr() % 16 == 0
            and view.stride(3) == 1
            and all(stride % per_vector == 0 for stride in view.stride()[:3])
            for view in self.views
        )
        return per_vector if fits else 1

    def scales(self, layer: int) -> tuple[float, float]:
        """K and V scale of a layer (1.0 where none was given)."""
        return (
            self.k_scales[layer] if self.k_scales else 1.0,
            self.v_scales[layer] if self.v_scales else 1.0,
        )

    def slots_of(self, slots: Tensor, layer: int) -> Tensor:
        """The layer's slot list, [T], out of `[T]` or `[G, T]`."""
        if slots.dim() == 1:
            return slots
        return slots[self.slot_rows[layer] if self.slot_rows else 0]

    def write(self, layer: int, slots: Tensor, values: Tensor, head_dim: int) -> None:
        """Scatter `values` [T, H, C] to `slots` int64 [T]; the first `head_dim` channels are K."""
        view = self.views[layer]
        if self.is_fp8:
            values = _to_fp8(values, self.scales(layer), head_dim)
        keep = slots >= 0
        if not bool(keep.all()):
            slots, values = slots[keep], values[keep]
        block, offset = slots // view.shape[2], slots % view.shape[2]
        # index_put_ has no float8 kernel everywhere: bytes do.
        if self.is_fp8:
            view, values = view.view(torch.uint8), values.view(torch.uint8)
        view[block, :, offset] = values.to(view.dtype)

    def read(self, layer: int, slots: Tensor, dtype: torch.dtype, head_dim: int) -> Tensor:
        """Gather [T, H, C] in `dtype` from non-negative `slots` int64 [T]."""
        view = self.views[layer]
        block, offset = slots // view.shape[2], slots % view.shape[2]
        if not self.is_fp8:
            return view[block, :, offset].to(dtype)
        codes = view.view(torch.uint8)[block, :, offset].view(torch.float8_e4m3fn)
        k_scale, v_scale = self.scales(layer)
        values = codes.to(torch.float32)
        values[..., :head_dim] *= k_scale
        values[..., head_dim:] *= v_scale
        return values.to(dtype)


def _to_fp8(values: Tensor, scales: tuple[float, float], head_dim: int) -> Tensor:
    scaled = values.to(torch.float32)
    scaled[..., :head_dim] /= scales[0]
    scaled[..., head_dim:] /= scales[1]
    return scaled.clamp_(-FP8_MAX, FP8_MAX).to(torch.float8_e4m3fn)
