"""Opens the arenas of a worker, and has them prove what they do before they are used.

Owns the proof: an item that goes the whole way, through either arena and the fused kernel, must
leave in the engine's cache, bit for bit, what the backend's own writer leaves there. Anything
unknown, or any difference, means no arenas.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from inferscale_kernels.caches import CacheTable
from inferscale_kernels.ops.inject import rotate
from inferscale_kernels.ops.quantize import ItemCodec
from inferscale_kernels.rope import RopeTable
from inferscale_vllm import cache_io
from inferscale_vllm.layers import AttentionLayers
from inferscale_vllm.metadata import Copy, Load
from inferscale_vllm.plan import Segment
from inferscale_vllm.tiers.arenas import Arenas, Format
from inferscale_vllm.tiers.memory import Memory
from inferscale_vllm.tiers.slabs import SLAB_TOKENS

logger = logging.getLogger(__name__)

_NUM_TOKENS, _SHIFT, _KEY = 2 * SLAB_TOKENS + 4, 5, "00" * 32
_PROOF_SLABS = 3


@dataclass(frozen=True)
class Sizes:
    """Slabs of each arena, and bytes of a slab."""

    host_slabs: int
    hbm_slabs: int
    slab_bytes: int


def open_arenas(
    memory: Memory,
    layers: AttentionLayers,
    writers: Sequence[Callable[..., None]],
    rope: RopeTable,
    form: Format,
    *,
    codecs: Sequence[ItemCodec] = (),
    host_bytes: int,
    hbm_bytes: int,
) -> tuple[Arenas, Sizes] | None:
    """Arenas that are proven and compiled, or None. Scratch writes go to the cache's first blocks.

    Args:
        memory: of the device that the caches lie on.
        layers: the model's layers, caches allocated and not in use.
        writers: the backend's cache writer of each layer.
        rope: their rotary geometry.
        form: how items are stored.
        codecs: of the compressed formats that may occur, whatever their scales.
        host_bytes, hbm_bytes: of each arena at most.
    """
    slab_bytes = SLAB_TOKENS * form.row_bytes()
    sizes = Sizes(host_bytes // slab_bytes, hbm_bytes // slab_bytes, slab_bytes)
    caches = cache_table(layers, form.dtype)
    if sizes.host_slabs < _PROOF_SLABS or caches is None:
        logger.warning("InferScale: no arenas: %s, or a cache of unknown layout", sizes)
        return None
    try:
        arenas = Arenas(memory, **vars(sizes), form=form, rope=rope, caches=caches)
        is_proven = _Proof(arenas, layers, writers, rope, form).holds(sizes)
        for codec in (None, *codecs):
            arenas.prepare(codec, 1 + max(layers.groups))
    except Exception:  # no memory, no compiler, a driver that refuses: the bank serves all the same
        logger.exception("InferScale: no arenas")
        return None
    if not is_proven:
        logger.warning("InferScale: no arenas: the fused kernel and the backend's writer differ")
    return (arenas, sizes) if is_proven else None


def cache_table(layers: AttentionLayers, dtype: torch.dtype) -> CacheTable | None:
    """The caches of all layers as the kernels take them; None if they are packed otherwise."""
    views = [module.kv_cache for module in layers.modules]
    if layers.is_latent:
        views = [view.unsqueeze(1) if view.dim() == 3 else view for view in views]
    _, planes, heads, size = layers.token_shape
    wanted = (4, heads, planes * size)
    is_plain = all(
        (view.dim(), view.shape[1], view.shape[-1]) == wanted
        and view.dtype in (dtype, torch.uint8, torch.float8_e4m3fn)
        and getattr(module, "isa", None) is None
        for view, module in zip(views, layers.modules, strict=True)
    )
    if not is_plain:
        return None
    k_scales, v_scales = (
        tuple(float(getattr(module, name, 1.0)) for module in layers.modules)
        for name in ("_k_scale_float", "_v_scale_float")
    )
    return CacheTable(tuple(views), k_scales, v_scales, tuple(layers.groups))


class _Proof:
    """Writes one item through the backend and through the arenas, and compares the bytes."""

    def __init__(
        self,
        arenas: Arenas,
        layers: AttentionLayers,
        writers: Sequence[Callable[..., None]],
        rope: RopeTable,
        form: Format,
    ) -> None:
        self._arenas, self._layers, self._writers, self._rope = arenas, layers, writers, rope
        generator = torch.Generator().manual_seed(0)
        shape = (_NUM_TOKENS, *form.token_shape)
        item = torch.randn(shape, generator=generator).to(form.dtype)
        self._item = item if form.token_shape[1] == 2 else item[:, :, 0]
        block_sizes = dict(
            zip(layers.groups, (m.kv_cache.shape[-2] for m in layers.modules), strict=True)
        )
        # Two blocks of its own for each group: layers of several groups may share their memory.
        # The tokens stand across the border between the two.
        self._slots = [
            np.arange(_NUM_TOKENS) + (2 + 2 * group) * block_sizes[group] - _NUM_TOKENS // 2
            for group in range(len(block_sizes))
        ]
        self._has_room = min(block_sizes.values()) >= _NUM_TOKENS // 2 and all(
            len(module.kv_cache) > 2 * len(block_sizes) for module in layers.modules
        )

    def holds(self, sizes: Sizes) -> bool:
        """Whether the bytes are the same, from each arena."""
        if not self._has_room:
            return False
        wanted = self._written()
        slabs = tuple(range(_PROOF_SLABS))
        ways = [Copy(_KEY, slabs, ())]
        if sizes.hbm_slabs >= _PROOF_SLABS:
            ways.append(Copy(_KEY, slabs, slabs))
        return all(self._injected(way, wanted) for way in ways)

    def kv(self, key: str) -> memoryview | None:
        content: np.ndarray[Any, Any] = self._item.contiguous().view(torch.uint8).numpy()
        return content.reshape(-1).data

    def codec(self, key: str) -> str:
        return "plain"

    def _scratch(self, index: int) -> torch.Tensor:
        first = 1 + 2 * self._layers.groups[index]
        blocks: torch.Tensor = self._layers.modules[index].kv_cache[first : first + 2]
        return blocks

    def _written(self) -> list[torch.Tensor]:
        """What the backend's writer leaves in the scratch blocks of each layer."""
        turned = rotate(self._item, torch.tensor([[0, _NUM_TOKENS, _SHIFT, 0]]), self._rope)
        found = []
        for index, module in enumerate(self._layers.modules):
            device, scratch = module.kv_cache.device, self._scratch(index)
            slots = torch.from_numpy(self._slots[self._layers.groups[index]])
            k, v, where = (t.to(device) for t in (turned.k[index], turned.v[index], slots))
            scratch.zero_()
            cache_io.write(module, self._writers[index], k, v, where)
            found.append(scratch.clone())
            scratch.zero_()
        return found

    def _injected(self, way: Copy, wanted: list[torch.Tensor]) -> bool:
        self._arenas.fetch([way], self)
        load = Load("proof", [Segment(_KEY, 0, _NUM_TOKENS, 0, _SHIFT)], self._slots, [])
        is_equal = not self._arenas.inject([load])
        for index, expected in enumerate(wanted):
            scratch = self._scratch(index)
            is_equal &= torch.equal(_bytes(scratch), _bytes(expected))
            scratch.zero_()
        return is_equal


def _bytes(blocks: torch.Tensor) -> torch.Tensor:
    return blocks.contiguous().view(torch.uint8)
