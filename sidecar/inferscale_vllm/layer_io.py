"""Turned K and V of all layers: into the engine's cache by the backend's own writer, and back.

Owns what differs from layer to layer: its KV cache group, hence its slots, and which tokens the
group has let go of.
"""

from collections.abc import Callable, Sequence

import torch

from inferscale_kernels.ops.inject import RotatedKV
from inferscale_vllm import cache_io
from inferscale_vllm.layers import AttentionLayers


def write_layers(
    layers: AttentionLayers,
    writers: Sequence[Callable[..., None]],
    out: RotatedKV,
    slots: Sequence[torch.Tensor],
) -> None:
    """Stores what `out` holds, layer by layer.

    Args:
        layers: the model's layers.
        writers: the backend's cache writer of each.
        out: [L, T, H, D] on the CPU.
        slots: int64 [T] on the CPU, one for each group; -1: nowhere.
    """
    rows = [_kept(s) for s in slots]
    for index, module in enumerate(layers.modules):
        group = layers.groups[index]
        held = _held(out, index, slots[group], rows[group])
        k, v, where = (t.to(module.kv_cache.device) for t in held)
        if len(where):
            cache_io.write(module, writers[index], k, v, where)


def worst_error(
    layers: AttentionLayers, out: RotatedKV, slots: Sequence[torch.Tensor]
) -> float | None:
    """The largest difference between `out` and what the cache holds; None if it cannot be read.
    Arguments as of `write_layers`."""
    worst = 0.0
    for index, module in enumerate(layers.modules):
        read = cache_io.reader_for(module)
        if read is None:
            return None
        group = layers.groups[index]
        *wanted, where = _held(out, index, slots[group], _kept(slots[group]))
        found = read(module.kv_cache, where.to(module.kv_cache.device), layers.head_size)
        for got, expected in zip(found, wanted, strict=True):
            if got.numel():
                worst = max(worst, (got.cpu().float() - expected.float()).abs().max().item())
    return worst


def _kept(slots: torch.Tensor) -> torch.Tensor | None:
    """Rows whose slot exists, int64; None if all do. A window group has let go of the others."""
    exists = slots >= 0
    return None if bool(exists.all()) else exists.nonzero().flatten()


def _held(
    out: RotatedKV, index: int, slots: torch.Tensor, rows: torch.Tensor | None
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """K, V and slots of one layer, without the rows that its group has let go of."""
    k, v = out.k[index], out.v[index]
    return (k, v, slots) if rows is None else (k[rows], v[rows], slots[rows])
