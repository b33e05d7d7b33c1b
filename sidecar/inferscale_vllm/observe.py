"""Has the loaded model compute K of the same tokens at several positions, in every layer.

Owns the watching: the model runs once, eagerly, with every attention layer replaced by one that
notes its K and answers zeros. Without attention nothing but the rotary embedding sees positions, so
whatever differs between two rows of the same token *is* the layer's rotation, by the model's own
code: norms, biases, scaling and layers that skip their rotary module included.
"""

import gc
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from inferscale_vllm import compat
from inferscale_vllm.layers import AttentionLayers, UnsupportedModel

POSITIONS = (3, 4, 20, 259, 700)
"""Where K is computed, besides the last position of the longest prompt, which tells apart RoPE
scalings that only slow channels show."""


@dataclass(frozen=True)
class Observed:
    """K as the layers handed it to the cache, on the CPU.

    Attributes:
        positions: the P positions.
        keys: [L, P, N, H, D] of N tokens; of MLA layers the latent and the rope part, H = 1.
    """

    positions: tuple[int, ...]
    keys: torch.Tensor


def find_model(layers: AttentionLayers) -> torch.nn.Module:
    """The model that holds the layers.

    vLLM hands connectors the attention layers but not the model; the garbage collector knows who
    holds them. Once, at start: about 0.3 s for a million objects.

    Raises:
        UnsupportedModel: nothing that holds the first layer looks like a model.
    """
    holders: dict[int, list[torch.nn.Module]] = defaultdict(list)
    for candidate in gc.get_objects():
        if issubclass(type(candidate), torch.nn.Module):
            for child in candidate._modules.values():
                holders[id(child)].append(candidate)
    found: torch.nn.Module | None = None
    level: list[torch.nn.Module] = [layers.modules[0]]
    seen: set[int] = set()
    while level:
        level = [h for module in level for h in holders[id(module)] if id(h) not in seen]
        seen.update(id(module) for module in level)
        found = next((m for m in level if hasattr(m, "compute_logits")), found)
    if found is None:
        raise UnsupportedModel(f"the model that holds {layers.names[0]} was not found")
    return found


def observe(model: torch.nn.Module, layers: AttentionLayers, vllm_config: Any) -> Observed:
    """Runs the model once on a handful of tokens.

    Raises:
        UnsupportedModel: the model did not run, or a layer was not called exactly once.
    """
    config = vllm_config.model_config
    last = min([int(config.max_model_len), *_table_rows(model)]) - 1
    positions = (*(p for p in POSITIONS if p < last), last)
    tokens = (config.get_vocab_size() // 3, config.get_vocab_size() // 2)
    noted: list[list[torch.Tensor]] = [[] for _ in layers.modules]
    device = layers.modules[0].kv_cache.device
    ids = torch.tensor(tokens * len(positions), device=device)
    where = torch.tensor(positions, device=device).repeat_interleave(len(tokens))
    try:
        eager = compat.eager_forward(vllm_config, len(ids))
        with torch.inference_mode(), _watched(model, layers, noted), eager:
            model(input_ids=ids, positions=where)
    except Exception as error:  # someone else's model code: whatever it raises, we cannot check it
        raise UnsupportedModel(
            f"{type(model).__name__} could not be watched: {type(error).__name__}: {error}"
        ) from error
    for name, keys in zip(layers.names, noted, strict=True):
        if len(keys) != 1:
            raise UnsupportedModel(f"{name} was called {len(keys)} times in one forward pass")
    shape = (len(positions), len(tokens), layers.num_kv_heads, layers.head_size)
    return Observed(positions, torch.stack([keys[0].view(shape) for keys in noted]))


def _table_rows(model: torch.nn.Module) -> list[int]:
    """Positions that the model's own rotary tables cover: beyond them a GPU would fault."""
    tables = (getattr(module, "cos_sin_cache", None) for module in model.modules())
    return [len(table) for table in tables if isinstance(table, torch.Tensor)]


@contextmanager
def _watched(
    model: torch.nn.Module, layers: AttentionLayers, noted: Sequence[list[torch.Tensor]]
) -> Iterator[None]:
    note = _note_latent if layers.is_latent else _note_heads
    adapted = compat.adapted_layers(model)
    for module in adapted:  # which adapter applies to which token is only known in a real batch
        module.forward = module.base_layer.forward
    for module, keys in zip(layers.modules, noted, strict=True):
        module.forward = note(module, keys)
    try:
        yield
    finally:
        for module in (*adapted, *layers.modules):
            del module.forward


def _note_heads(module: Any, keys: list[torch.Tensor]) -> Callable[..., torch.Tensor]:
    def forward(
        query: torch.Tensor, key: Any, value: Any, output_shape: Any = None, *_: Any, **__: Any
    ) -> torch.Tensor:
        keys.append(key.reshape(-1, module.num_kv_heads, module.head_size).cpu())
        return query.new_zeros(
            output_shape or (query.shape[0], module.num_heads * module.head_size)
        )

    return forward


def _note_latent(module: Any, keys: list[torch.Tensor]) -> Callable[..., torch.Tensor]:
    def forward(
        query: torch.Tensor, latent: Any, rope: Any, output_shape: Any = None, *_: Any, **__: Any
    ) -> torch.Tensor:
        keys.append(torch.cat((latent, rope.flatten(1)), dim=1).cpu())
        return query.new_zeros(output_shape)

    return forward
