"""Pages are filled directly only where that was seen to give the backend writer's own bytes."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch

pytest.importorskip("vllm")
pytest.importorskip("numba")

from vllm import _custom_ops as ops

from inferscale_kernels.rope import NOPE, RopeTable
from inferscale_vllm.layers import AttentionLayers
from inferscale_vllm.packed import direct_fill

HEADS, DIM, SIZE = 2, 32, 32
ROPE = RopeTable(1e4 ** (-torch.arange(0, DIM, 2).float() / DIM)[None], (0, NOPE))


def write(layer: Any, key: Any, value: Any, cache: Any, slots: Any) -> None:
    """vLLM's CPU writer, as its attention layer calls it."""
    blocks, heads, size, _ = cache.shape
    keys, values = cache.view(blocks, heads, 2 * size, -1).chunk(2, dim=2)
    ops.cpu_attn_reshape_and_cache(
        *(key, value, keys, values, slots, layer.isa),
        k_scale=1.0,
        v_scale=1.0,
        kv_cache_dtype="auto",
    )


def layers(isa: str = "vec", dtype: torch.dtype = torch.bfloat16) -> AttentionLayers:
    modules = [
        SimpleNamespace(
            isa=isa,
            kv_cache=torch.zeros(5, HEADS, SIZE, 2 * DIM, dtype=dtype),
            num_kv_heads=HEADS,
            head_size=DIM,
        )
        for _ in range(2)
    ]
    return AttentionLayers(["l0", "l1"], modules, [0, 0])


def test_pages_are_filled_as_the_backend_fills_them() -> None:
    found = layers()
    fill = direct_fill(found, [write, write], ROPE, torch.bfloat16)
    assert fill is not None
    assert all(not module.kv_cache.any() for module in found.modules), "scratch is cleared"
    item = torch.randn(9, 2, 2, HEADS, DIM).to(torch.bfloat16)
    slots = torch.arange(60, 69)
    fill(
        [item.view(torch.uint8).numpy().reshape(-1).data], torch.tensor([[0, 9, 0, 0]]), slots[None]
    )
    for index, module in enumerate(found.modules):
        wanted = torch.zeros_like(module.kv_cache)
        write(module, item[:, index, 0], item[:, index, 1], wanted, slots)
        assert torch.equal(module.kv_cache, wanted)


def test_a_layout_that_is_not_known_is_left_to_the_backend() -> None:
    assert direct_fill(layers("amx"), [write, write], ROPE, torch.bfloat16) is None
    quantised = layers(dtype=torch.float16)
    assert direct_fill(quantised, [write, write], ROPE, torch.bfloat16) is None


def test_a_backend_that_writes_something_else_is_left_to_itself() -> None:
    """As a later version may, under the same name."""

    def other(layer: Any, key: Any, value: Any, cache: Any, slots: Any) -> None:
        write(layer, key, value, cache, slots)
        cache[2, 0, 0, 0] += 1

    found = layers()
    assert direct_fill(found, [write, other], ROPE, torch.bfloat16) is None
    assert all(not module.kv_cache.any() for module in found.modules)
