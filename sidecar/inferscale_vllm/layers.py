"""Finds the loaded model's attention layers and how each of them turns K with position.

Owns the reading of vLLM's layer objects; the tables come from the model's own rotary modules, never
from its configuration, because a model may scale, share or skip RoPE per layer.
"""

import gc
import re
from dataclasses import dataclass
from typing import Any

import torch

from inferscale_kernels.rope import NOPE, RopeTable
from inferscale_vllm import compat


class UnsupportedModel(Exception):
    """The loaded model cannot be injected into; the sentence says why."""


@dataclass(frozen=True)
class AttentionLayers:
    """The layers whose KV an item holds, in model order.

    Attributes:
        names: their names in `static_forward_context`.
        modules: vLLM's `Attention` objects.
        groups: index of each layer's KV cache group.
        rotary: each layer's rotary module, None for a layer without.
    """

    names: list[str]
    modules: list[Any]
    groups: list[int]
    rotary: list[Any]

    @property
    def num_kv_heads(self) -> int:
        return int(self.modules[0].num_kv_heads)

    @property
    def head_size(self) -> int:
        return int(self.modules[0].head_size)

    @property
    def token_shape(self) -> tuple[int, int, int, int]:
        """Shape of one token of an item: [L, 2, H, D]."""
        return (len(self.names), 2, self.num_kv_heads, self.head_size)


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
    names = sorted(group_of, key=_natural)
    modules = [context[name] for name in names]
    for name, module in zip(names, modules, strict=True):
        _check(name, module, modules[0])
    parents = _parents(modules)
    rotary = [_rotary(name, parents.get(id(m))) for name, m in zip(names, modules, strict=True)]
    return AttentionLayers(names, modules, [group_of[n] for n in names], rotary)


def _natural(name: str) -> list[tuple[int, str]]:
    """Sort key that puts layer 10 behind layer 9."""
    return [(int(part), "") if part.isdigit() else (0, part) for part in re.split(r"(\d+)", name)]


def _check(name: str, module: Any, first: Any) -> None:
    if not hasattr(getattr(module, "impl", None), "do_kv_cache_update"):
        raise UnsupportedModel(f"{name} ({type(module).__name__}) has no KV cache writer")
    if getattr(module, "kv_sharing_target_layer_name", None):
        raise UnsupportedModel(f"{name} shares another layer's KV cache")
    if (module.num_kv_heads, module.head_size) != (first.num_kv_heads, first.head_size):
        raise UnsupportedModel(f"{name} has another KV shape than the first layer")
    if getattr(module, "head_size_v", module.head_size) != module.head_size:
        raise UnsupportedModel(f"{name} has K and V heads of different sizes")
    if getattr(module.impl, "alibi_slopes", None) is not None:
        raise UnsupportedModel(f"{name} uses ALiBi: its scores depend on absolute positions")


def _parents(modules: list[Any]) -> dict[int, Any]:
    """The module that holds each attention layer, by `id` of the layer.

    vLLM hands connectors the attention layers but not the model; the collector knows who holds
    them. Once, at
    start: about 0.3 s for a million objects.
    """
    wanted = {id(module) for module in modules}
    found: dict[int, Any] = {}
    for candidate in gc.get_objects():
        if not issubclass(type(candidate), torch.nn.Module):
            continue
        for child in candidate._modules.values():
            if id(child) in wanted:
                found[id(child)] = candidate
    return found


def _rotary(name: str, parent: Any) -> Any:
    if parent is None:
        raise UnsupportedModel(f"the module that holds {name} was not found")
    return getattr(parent, "rotary_emb", None)


def rope_table(layers: AttentionLayers) -> RopeTable:
    """Rotary geometry of all layers.

    Raises:
        UnsupportedModel: a rotary module is of a class that cannot be rotated by a difference.
    """
    rows: list[int] = []
    bases: list[torch.Tensor] = []
    styles: set[tuple[bool, int]] = set()
    seen: dict[int, int] = {}
    for name, module in zip(layers.names, layers.rotary, strict=True):
        if module is None:
            rows.append(NOPE)
            continue
        if id(module) not in seen:
            seen[id(module)] = len(bases)
            bases.append(inverse_frequencies(name, module))
            styles.add((bool(module.is_neox_style), int(module.rotary_dim)))
        rows.append(seen[id(module)])
    if not bases:
        raise UnsupportedModel("no layer has a rotary embedding: positions cannot be moved")
    if len(styles) > 1:
        raise UnsupportedModel(f"layers differ in rotary pairing or size: {sorted(styles)}")
    return RopeTable(torch.stack(bases), tuple(rows), is_neox=next(iter(styles))[0])


def inverse_frequencies(name: str, module: Any) -> torch.Tensor:
    """Radians per position of a rotary module, fp32 [R/2], from the module's own formula.

    Raises:
        UnsupportedModel: not a class whose angle is linear in the position.
    """
    classes = compat.rope_modules()
    kind = next((kind for kind, cls in classes.items() if type(module) is cls), None)
    if kind in ("plain", "llama3"):
        frequencies: torch.Tensor = module._compute_inv_freq(module.base).float().cpu()
        return frequencies
    if kind == "linear" and len(module.scaling_factors) == 1:
        unscaled: torch.Tensor = module._compute_inv_freq(module.base).float().cpu()
        return unscaled / float(module.scaling_factors[0])
    raise UnsupportedModel(
        f"{name} uses {type(module).__name__}, whose rotation is not known to depend on "
        "differences of positions only"
    )
