"""Small models, items, segment tables and caches for the kernel tests, all seeded."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from inferscale_kernels.caches import CacheTable
from inferscale_kernels.rope import NOPE, RopeTable
from inferscale_kernels.segments import segment_table

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
"""Where Triton kernels run: compiled on a GPU, or interpreted."""


@dataclass(frozen=True)
class Geometry:
    """One model's KV geometry; `mla` stores K only, with the rope part last."""

    name: str
    layers: int = 3
    heads: int = 3
    head_dim: int = 64
    rotary_dim: int = 64
    is_neox: bool = True
    rows: tuple[int, ...] = (0, 0, 0)
    mla: bool = False

    def __str__(self) -> str:
        return self.name

    def rope(self) -> RopeTable:
        exponent = torch.arange(0, self.rotary_dim, 2, dtype=torch.float32) / self.rotary_dim
        bases = torch.tensor([[1e4], [1e6]])[: max(self.rows) + 1]
        offset = self.head_dim - self.rotary_dim if self.mla else 0
        return RopeTable(1.0 / bases**exponent, self.rows, self.is_neox, offset)

    def items(self, tokens: int, dtype: torch.dtype = torch.bfloat16, seed: int = 0) -> Tensor:
        tail = (1, self.head_dim) if self.mla else (2, self.heads, self.head_dim)
        generator = torch.Generator().manual_seed(seed)
        return torch.randn(tokens, self.layers, *tail, generator=generator).to(dtype)

    def caches(
        self,
        blocks: int,
        block_size: int,
        dtype: torch.dtype,
        *,
        hnd: bool = False,
        device: str = "cpu",
    ) -> CacheTable:
        """One allocation for all layers, NaN-filled, in the engine's NHD or HND order."""
        width = self.head_dim if self.mla else 2 * self.head_dim
        order = (self.heads, block_size) if hnd else (block_size, self.heads)
        pages = torch.full((self.layers, blocks, *order, width), float("nan")).to(dtype).to(device)
        views = pages if hnd else pages.permute(0, 1, 3, 2, 4)
        scales = tuple(0.02 * (i + 1) for i in range(self.layers))
        return CacheTable(tuple(views), *((scales, scales[::-1]) if views.itemsize == 1 else ()))


GEOMETRIES = (
    Geometry("llama"),
    Geometry("gptj", is_neox=False),
    Geometry("partial", head_dim=80, rotary_dim=32),
    Geometry("partial-gptj", head_dim=96, rotary_dim=24, is_neox=False),
    Geometry("nope", rows=(0, NOPE, 0)),
    Geometry("two-bases", heads=1, head_dim=256, rotary_dim=256, rows=(0, 1, 0)),
    Geometry("head-128", heads=2, head_dim=128, rotary_dim=128),
    Geometry("mla", heads=1, head_dim=96, rotary_dim=32, is_neox=False, mla=True),
)


def shuffled_segments() -> Tensor:
    """29 tokens of 6 pieces, out of order on both sides, one unmoved, over a 40-row staging."""
    pieces = [(0, 5, 17, 20), (30, 7, -11, 0), (12, 1, 3, 7), (5, 4, 0, 25), (13, 9, 0, 8)]
    return segment_table([*pieces, (35, 3, 1001, 17)])
