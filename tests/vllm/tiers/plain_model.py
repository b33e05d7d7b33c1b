"""A model of two layers whose cache is plain and strided, as on a GPU, and items for it."""

import zlib
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

from inferscale_kernels.ops.quantize import ItemCodec
from inferscale_kernels.rope import RopeTable
from inferscale_vllm.bank import ItemHeader, checksum
from inferscale_vllm.layers import AttentionLayers
from inferscale_vllm.tiers.arenas import Format

LAYERS, HEADS, SIZE, BLOCKS, BLOCK = 2, 2, 16, 24, 16
TOKEN_SHAPE = (LAYERS, 2, HEADS, SIZE)
DTYPE = torch.bfloat16
ROPE = RopeTable.uniform(1e4 ** (-torch.arange(0, SIZE, 2, dtype=torch.float32) / SIZE), LAYERS)
CODECS: dict[str, ItemCodec | None] = {
    "plain": None,
    "int8": ItemCodec(torch.full((LAYERS, HEADS, SIZE), 0.02), "int8"),
}
FORM = Format(TOKEN_SHAPE, DTYPE, CODECS.__getitem__)


class Impl:
    """A backend's writer; `broken`: one that keeps another layout."""

    def __init__(self, broken: bool = False) -> None:
        self._broken = broken

    def do_kv_cache_update(self, layer: Any, k: Any, v: Any, cache: Any, slots: Any) -> None:
        planes = (v, k) if self._broken else (k, v)
        cache[slots // BLOCK, :, slots % BLOCK] = torch.cat(planes, dim=-1)


def layers(device: torch.device, broken: bool = False, **fields: Any) -> AttentionLayers:
    """All layers in one allocation, blocks outermost: `[B, L, N, H, C]` seen as `[B, H, N, C]`."""
    shape = (BLOCKS, LAYERS, BLOCK, HEADS, 2 * SIZE)
    memory = torch.zeros(shape, dtype=DTYPE, device=device)
    modules = [
        SimpleNamespace(
            impl=Impl(broken),
            num_kv_heads=HEADS,
            head_size=SIZE,
            dtype=DTYPE,
            kv_cache=memory[:, index].transpose(1, 2),
            **fields,
        )
        for index in range(LAYERS)
    ]
    return AttentionLayers([f"l{n}" for n in range(LAYERS)], modules, [0] * LAYERS)


def read(found: AttentionLayers, slots: Any) -> torch.Tensor:
    """What the cache holds, [T, L, 2, H, D] on the CPU."""
    where = torch.as_tensor(slots)
    tokens = [m.kv_cache.cpu()[where // BLOCK, :, where % BLOCK] for m in found.modules]
    return torch.stack([torch.stack(t.split(SIZE, dim=-1), dim=1) for t in tokens], dim=1)


class Items:
    """Items of any length, made as they are asked for; stands for the bank's reader."""

    def __init__(self) -> None:
        self.kept: dict[str, tuple[torch.Tensor, str]] = {}

    def add(self, key: str, num_tokens: int, codec: str = "plain", seed: int = 0) -> ItemHeader:
        generator = torch.Generator().manual_seed(zlib.crc32(f"{key} {seed}".encode()))
        kv = torch.randn(num_tokens, *TOKEN_SHAPE, generator=generator).to(DTYPE)
        compressor = CODECS[codec]
        stored = kv if compressor is None else compressor.encode(kv)
        self.kept[key] = (stored, codec)
        content = self.kv(key)
        assert content is not None
        ids = np.arange(num_tokens, dtype=np.int32)
        return ItemHeader(num_tokens, 0, len(content), checksum(content), ids, codec=codec)

    def kv(self, key: str) -> memoryview | None:
        if key not in self.kept:
            return None
        return memoryview(self.kept[key][0].contiguous().view(torch.uint8).numpy().tobytes())

    def codec(self, key: str) -> str:
        return self.kept[key][1] if key in self.kept else "plain"

    def tokens(self, key: str) -> torch.Tensor:
        """The item as it is to arrive in the cache if it does not move."""
        stored, name = self.kept[key]
        codec = CODECS[name]
        return stored if codec is None else codec.decode(stored, DTYPE)
