"""Checks the loaded model's cache before anything is injected into it (a few milliseconds).

What is written through the backend must read back bit by bit. That our rotation is the model's is
checked while its geometry is found out (`rotary.py`); that injected logits equal those of a native
prefix hit needs requests, and is done by the sidecar.
"""

from dataclasses import dataclass

import torch

from inferscale_vllm import cache_io
from inferscale_vllm.capture import Capturer
from inferscale_vllm.layers import AttentionLayers

_NUM_TOKENS = 5


@dataclass(frozen=True)
class SelfTest:
    passed: bool
    detail: str


def run(layers: AttentionLayers, capturer: Capturer, dtype: torch.dtype) -> SelfTest:
    """Runs the check. Scratch writes go to block 1 and are cleared again."""
    broken = _check_round_trip(layers, capturer, dtype)
    if broken is not None:
        return SelfTest(False, broken)
    readable = cache_io.reader_for(layers.modules[0]) is not None
    how = "write/read round trip and rotation" if readable else "rotation (layout has no reader)"
    return SelfTest(True, f"{how} agree with the model on {len(layers.names)} layers")


def _check_round_trip(
    layers: AttentionLayers, capturer: Capturer, dtype: torch.dtype
) -> str | None:
    generator = torch.Generator().manual_seed(0)
    shape = (_NUM_TOKENS, layers.num_kv_heads, layers.head_size)
    for name, module, writer in zip(layers.names, layers.modules, capturer.writers, strict=True):
        reader = cache_io.reader_for(module)
        if reader is None:
            continue
        block_size = module.kv_cache.shape[-2]
        device = module.kv_cache.device
        slots = torch.arange(block_size + 1, block_size + 1 + _NUM_TOKENS, device=device)
        k = torch.randn(shape, generator=generator).to(device, dtype)
        v = torch.randn(shape, generator=generator).to(device, dtype)
        cache_io.write(module, writer, k, v, slots)
        got_k, got_v = reader(module.kv_cache, slots, layers.head_size)
        zero = torch.zeros_like(k)
        cache_io.write(module, writer, zero, zero, slots)
        if not (torch.equal(got_k, k) and torch.equal(got_v, v[..., : got_v.shape[-1]])):
            return f"{name}: KV written through the backend does not read back (layout changed?)"
    return None
