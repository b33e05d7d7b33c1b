"""Finds the loaded model's attention layers, and the shape of what they keep in the cache.

Owns the reading of vLLM's layer objects. How K turns with position is `rotary.py`'s.
"""

import re
from dataclasses import dataclass
from typing import Any


class UnsupportedModel(Exception):
    """The loaded model cannot be injected into; the sentence says why."""


@dataclass(frozen=True)
class AttentionLayers:
    """The layers whose KV an item holds, in model order.

    Attributes:
        names: their names in `static_forward_context`.
        modules: vLLM's `Attention` objects.
        groups: index of each layer's KV cache group.
    """

    names: list[str]
    modules: list[Any]
    groups: list[int]

    @property
    def is_latent(self) -> bool:
        """Whether the layers keep MLA's latent and rope part in place of K and V."""
        return hasattr(self.modules[0], "kv_lora_rank")

    @property
    def rope_offset(self) -> int:
        """First channel of K that turns with position."""
        return int(self.modules[0].kv_lora_rank) if self.is_latent else 0

    @property
    def num_kv_heads(self) -> int:
        return int(self.modules[0].num_kv_heads)

    @property
    def head_size(self) -> int:
        return int(self.modules[0].head_size)

    @property
    def token_shape(self) -> tuple[int, int, int, int]:
        """Shape of one token of an item: [L, 2, H, D], of MLA [L, 1, 1, C]."""
        return (len(self.names), 1 if self.is_latent else 2, self.num_kv_heads, self.head_size)


def find_layers(vllm_config: Any, kv_cache_config: Any) -> AttentionLayers:
    """Decoder attention layers that own a KV cache.

    Raises:
        UnsupportedModel: a layer is of a kind whose KV cannot be written or moved.
    """
    context = vllm_config.compilation_config.static_forward_context
    group_of = {
        name: index
        for index, group in enumerate(kv_cache_config.kv_cache_groups)
        for name in group.layer_names
    }
    # A layer that reads another one's cache writes nothing: what the other one gets serves both.
    owners = [n for n in group_of if not _shares(context[n])]
    names = sorted(owners, key=_natural)
    modules = [context[name] for name in names]
    for name, module in zip(names, modules, strict=True):
        _check(name, module, modules[0])
    return AttentionLayers(names, modules, [group_of[n] for n in names])


def _shares(module: Any) -> bool:
    return getattr(module, "kv_sharing_target_layer_name", None) is not None


def _natural(name: str) -> list[tuple[int, str]]:
    """Sort key that puts layer 10 behind layer 9."""
    return [(int(part), "") if part.isdigit() else (0, part) for part in re.split(r"(\d+)", name)]


def _check(name: str, module: Any, first: Any) -> None:
    if not hasattr(getattr(module, "impl", None), "do_kv_cache_update"):
        raise UnsupportedModel(f"{name} ({type(module).__name__}) has no KV cache writer")
    if hasattr(module, "kv_lora_rank") != hasattr(first, "kv_lora_rank"):
        raise UnsupportedModel(f"{name} keeps another kind of KV than the first layer")
    if (module.num_kv_heads, module.head_size) != (first.num_kv_heads, first.head_size):
        raise UnsupportedModel(f"{name} has another KV shape than the first layer")
    if getattr(module, "head_size_v", module.head_size) != module.head_size:
        raise UnsupportedModel(f"{name} has K and V heads of different sizes")
    if getattr(module.impl, "alibi_slopes", None) is not None:
        raise UnsupportedModel(f"{name} uses ALiBi, which is not supported")
