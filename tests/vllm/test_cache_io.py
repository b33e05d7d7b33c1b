"""Readers see what the layouts hold: pages packed by hand, and pages written by vLLM itself."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from inferscale_vllm import cache_io

BLOCKS, HEADS, SIZE, HEAD = 3, 2, 32, 64
SLOTS = torch.tensor([33, 34, 70, 95])


def test_plain_pages() -> None:
    cache = torch.randn(BLOCKS, HEADS, SIZE, 2 * HEAD)
    k, v = cache_io.read_plain(cache, SLOTS, HEAD)
    assert torch.equal(k[0], cache[1, :, 1, :HEAD])
    assert torch.equal(v[3], cache[2, :, 31, HEAD:])


def test_plain_pages_with_strides() -> None:
    cache = torch.randn(BLOCKS, SIZE, HEADS, 2 * HEAD).transpose(1, 2)
    k, _ = cache_io.read_plain(cache, SLOTS, HEAD)
    assert torch.equal(k[2], cache[2, :, 6, :HEAD])


@pytest.mark.parametrize("isa", ["vec", "amx"])
def test_cpu_pages_as_vllm_writes_them(isa: str) -> None:
    """Bit by bit, through the op that the CPU backend writes with."""
    pytest.importorskip("vllm")
    from vllm import _custom_ops as ops

    if isa == "amx" and not torch.cpu._is_amx_tile_supported():
        pytest.skip("this CPU has no AMX")
    cache = torch.full((BLOCKS, HEADS, 2 * SIZE, HEAD), float("nan"), dtype=torch.bfloat16)
    k = torch.randn(len(SLOTS), HEADS, HEAD).to(torch.bfloat16)
    v = torch.randn(len(SLOTS), HEADS, HEAD).to(torch.bfloat16)
    key_cache, value_cache = cache.chunk(2, dim=2)
    ops.cpu_attn_reshape_and_cache(
        k, v, key_cache, value_cache, SLOTS, isa, k_scale=1.0, v_scale=1.0, kv_cache_dtype="auto"
    )
    got_k, got_v = cache_io.READERS[isa](cache.view(BLOCKS, HEADS, SIZE, 2 * HEAD), SLOTS, HEAD)
    assert torch.equal(got_k, k) and torch.equal(got_v, v)


def test_unknown_layouts_have_no_reader() -> None:
    layer = SimpleNamespace(isa="new", kv_cache=torch.zeros(1, 1, 1, 2), dtype=torch.float32)
    assert cache_io.reader_for(layer) is None
    quantised = SimpleNamespace(
        kv_cache=torch.zeros(1, 1, 1, 2).to(torch.int8), dtype=torch.float32
    )
    assert cache_io.reader_for(quantised) is None


def test_latents_are_written_and_read_by_row() -> None:
    """MLA: the writer takes latent and rope part apart; a page is rows of both."""
    cache = torch.zeros(BLOCKS, 1, SIZE, 6)
    layer = SimpleNamespace(kv_lora_rank=4, kv_cache=cache, kv_cache_dtype="auto", _k_scale=None)

    def writer(latent: Any, rope: Any, cache: Any, slots: Any, *_: Any) -> None:
        cache.view(-1, 6)[slots] = torch.cat((latent, rope[:, 0]), dim=1)

    rows = torch.randn(len(SLOTS), 1, 6)
    cache_io.write(layer, writer, rows, rows[..., :0], SLOTS)
    reader = cache_io.reader_for(layer)
    assert reader is not None
    k, v = reader(cache, SLOTS, 6)
    assert torch.equal(k, rows) and v.shape == (len(SLOTS), 1, 0)
    layer.kv_cache_dtype = "fp8"
    assert cache_io.reader_for(layer) is None
