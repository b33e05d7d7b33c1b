"""Checks the loaded model before anything is injected into it (a few milliseconds, no forward
pass).

Two properties, each against the model's own code: what is written through the backend can be read
back bit by bit, and turning K by a difference of positions gives what the model's rotary module
computes there. The third, that injected logits equal those of a native prefix hit, needs requests
and is done by the sidecar.
"""

from dataclasses import dataclass

import torch

from inferscale_kernels.ops.inject import rotate
from inferscale_kernels.rope import NOPE, RopeTable
from inferscale_vllm import cache_io
from inferscale_vllm.capture import Capturer
from inferscale_vllm.layers import AttentionLayers

_NUM_TOKENS = 5
_POSITIONS = (3, 700)
TOLERANCE = 2**-6
"""Two steps of bf16 (2**-8 each) at the size of the values used, doubled: the model's own tables
are rounded
to bf16 before use, ours are not."""


@dataclass(frozen=True)
class SelfTest:
    passed: bool
    detail: str


def run(
    layers: AttentionLayers, rope: RopeTable, capturer: Capturer, dtype: torch.dtype
) -> SelfTest:
    """Runs both checks. Scratch writes go to block 1 and are cleared again."""
    for check in (_check_round_trip(layers, capturer, dtype), _check_rotation(layers, rope, dtype)):
        if check is not None:
            return SelfTest(False, check)
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
        block_size = module.kv_cache.shape[2]
        device = module.kv_cache.device
        slots = torch.arange(block_size + 1, block_size + 1 + _NUM_TOKENS, device=device)
        k = torch.randn(shape, generator=generator).to(device, dtype)
        v = torch.randn(shape, generator=generator).to(device, dtype)
        cache_io.write(module, writer, k, v, slots)
        got_k, got_v = reader(module.kv_cache, slots, layers.head_size)
        zero = torch.zeros_like(k)
        cache_io.write(module, writer, zero, zero, slots)
        if not (torch.equal(got_k, k) and torch.equal(got_v, v)):
            return f"{name}: KV written through the backend does not read back (layout changed?)"
    return None


def _check_rotation(layers: AttentionLayers, rope: RopeTable, dtype: torch.dtype) -> str | None:
    generator = torch.Generator().manual_seed(1)
    shape = (1, layers.num_kv_heads * layers.head_size)
    raw = torch.rand(shape, generator=generator).sub(0.5).to(dtype)
    before, after = _POSITIONS
    seen: set[int] = set()
    for name, module, row in zip(layers.names, layers.rotary, rope.rows, strict=True):
        if row == NOPE or row in seen:
            continue
        seen.add(row)
        built, wanted = (_rotated(module, raw, position) for position in (before, after))
        head = (1, 1, 1, layers.num_kv_heads, layers.head_size)
        item = torch.cat((built.view(head), torch.zeros(head, dtype=dtype)), dim=2)
        single = RopeTable(rope.inv_freq[row : row + 1], (0,), rope.is_neox)
        segment = torch.tensor([[0, 1, after - before, 0]])
        got = rotate(item.contiguous(), segment, single).k
        error = (got.float().flatten() - wanted.float().flatten()).abs().max().item()
        if error > TOLERANCE:
            return (
                f"{name}: K moved from position {before} to {after} differs from the model's own "
                f"rotation by {error:.4f} (tolerance {TOLERANCE:.4f})"
            )
    return None


def _rotated(module: object, raw: torch.Tensor, position: int) -> torch.Tensor:
    device = module.cos_sin_cache.device  # type: ignore[attr-defined]
    query, key = raw.clone().to(device), raw.clone().to(device)
    positions = torch.tensor([position], device=device)
    _, turned = module.forward_native(positions, query, key)  # type: ignore[attr-defined]
    result: torch.Tensor = turned.cpu()
    return result
