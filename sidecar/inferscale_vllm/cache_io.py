"""Writes and reads the engine's paged KV cache, token by token, whatever the attention backend
packs.

Owns the one place that touches cache bytes. Writing goes through the backend's own
`impl.do_kv_cache_update`, which knows every layout; reading, which vLLM offers nowhere, is
implemented for the layouts listed in `READERS` and only ever used to check (self-test,
`verify_writes`).
"""

from collections.abc import Callable
from typing import Any

import torch

Reader = Callable[[torch.Tensor, torch.Tensor, int], tuple[torch.Tensor, torch.Tensor]]


def write(layer: Any, writer: Callable[..., None], k: Any, v: Any, slots: torch.Tensor) -> None:
    """Stores K and V of one layer.

    Args:
        layer: vLLM's `Attention` or `MLAAttention`.
        writer: its bound `impl.do_kv_cache_update` (the original, not a capturing one).
        k, v: [T, H, D] contiguous, model dtype; of MLA, k is [T, 1, C] and v is not used.
        slots: int64 [T] on the cache's device.
    """
    rank = getattr(layer, "kv_lora_rank", None)
    if rank is None:
        writer(layer, k, v, layer.kv_cache, slots)
        return
    latent, rope = k[:, 0, :rank], k[:, :, rank:]
    writer(latent, rope, layer.kv_cache, slots, layer.kv_cache_dtype, layer._k_scale)


def captured(layer: Any, *written: Any) -> tuple[tuple[torch.Tensor, ...], torch.Tensor]:
    """What a call of a layer's cache writer was given.

    Returns:
        The planes of an item, [T, H, D] each: K and V, or MLA's latent with its rope part behind
        it; and the slots they go to.
    """
    if getattr(layer, "kv_lora_rank", None) is None:
        _, key, value, _, slots = written
        return (key, value), slots
    latent, rope, _, slots, *_ = written
    return (torch.cat((latent[:, None], rope.view(len(rope), 1, -1)), dim=-1),), slots


def reader_for(layer: Any) -> Reader | None:
    """The reader of a layer's layout, or None if the layout is not known."""
    if getattr(layer, "kv_lora_rank", None) is not None:
        is_plain = layer.kv_cache_dtype == "auto" and layer.kv_cache.is_contiguous()
        return read_latent if is_plain else None
    if layer.kv_cache.dim() != 4 or layer.kv_cache.dtype != layer_dtype(layer):
        return None
    return READERS.get(getattr(layer, "isa", None))


def layer_dtype(layer: Any) -> torch.dtype:
    """Dtype that a layer's K and V have before the cache may quantise them."""
    dtype: torch.dtype = getattr(layer, "dtype", None) or torch.get_default_dtype()
    return dtype


def read_cpu_vec(
    cache: torch.Tensor, slots: torch.Tensor, head_size: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Reads the CPU backend's `vec` pages: K column-major `[D, N]`, V row-major `[N, D]`.

    Args:
        cache: [B, H, N, 2*D].
        slots: int64 [T].
        head_size: D.

    Returns:
        K and V, [T, H, D].
    """
    num_blocks, num_heads, block_size, _ = cache.shape
    pages = cache.view(num_blocks, num_heads, 2, block_size * head_size)
    keys = pages[:, :, 0].view(num_blocks, num_heads, head_size, block_size)
    values = pages[:, :, 1].view(num_blocks, num_heads, block_size, head_size)
    block, offset = slots // block_size, slots % block_size
    return keys[block, :, :, offset], values[block, :, offset]


def read_cpu_amx(
    cache: torch.Tensor, slots: torch.Tensor, head_size: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Reads the CPU backend's `amx` pages (bf16): K as int32 pairs, V in 16-column tiles. As
    `read_cpu_vec`."""
    num_blocks, num_heads, size, _ = cache.shape
    pages = cache.view(num_blocks, num_heads, 2, size * head_size)
    pairs = pages[:, :, 0].contiguous().view(torch.int32)
    keys = pairs.view(num_blocks, num_heads, size // 16, head_size // 2, 16)
    keys = keys.permute(0, 1, 2, 4, 3).contiguous().view(cache.dtype)
    keys = keys.view(num_blocks, num_heads, size, head_size)
    tiles = (
        pages[:, :, 1].contiguous().view(num_blocks, num_heads, head_size // 16, size // 2, 16, 2)
    )
    values = tiles.permute(0, 1, 3, 5, 2, 4).reshape(num_blocks, num_heads, size, head_size)
    block, offset = slots // size, slots % size
    return keys[block, :, offset], values[block, :, offset]


def read_plain(
    cache: torch.Tensor, slots: torch.Tensor, head_size: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Reads strided pages `[B, H, N, K|V]` as the CUDA backends keep them. As `read_cpu_vec`."""
    block, offset = slots // cache.shape[2], slots % cache.shape[2]
    tokens = cache[block, :, offset]
    return tokens[..., :head_size], tokens[..., head_size:]


def read_latent(
    cache: torch.Tensor, slots: torch.Tensor, head_size: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Reads MLA's pages: rows of `head_size` channels one after the other. As `read_cpu_vec`; V has
    no channels."""
    rows = cache.view(-1, 1, head_size)[slots]
    return rows, rows[..., :0]


READERS: dict[str | None, Reader] = {
    "vec": read_cpu_vec,
    "vec16": read_cpu_vec,
    "amx": read_cpu_amx,
    None: read_plain,
}
"""CPU attention packs pages by instruction set (`layer.isa`). Vouched for by the start-up round
trip only."""
