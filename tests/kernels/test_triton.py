"""The Triton kernels against the reference, in Triton's interpreter or on a GPU."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from inferscale_kernels.caches import CacheTable
from inferscale_kernels.ops.extract import reference as extract_reference
from inferscale_kernels.ops.extract import triton as extract_triton
from inferscale_kernels.ops.inject import reference as inject_reference
from inferscale_kernels.ops.inject import triton as inject_triton

from .builders import GEOMETRIES, Geometry, shuffled_segments

by_name = pytest.mark.parametrize("model", GEOMETRIES, ids=lambda model: model.name)
cache_dtypes = pytest.mark.parametrize(
    ("dtype", "cached"),
    [
        (torch.bfloat16, torch.bfloat16),
        (torch.float16, torch.float16),
        (torch.bfloat16, torch.float8_e4m3fn),
    ],
    ids=["bf16", "fp16", "fp8"],
)


def twins(
    model: Geometry, cached: torch.dtype, *, hnd: bool = False
) -> tuple[CacheTable, CacheTable]:
    return model.caches(9, 5, cached, hnd=hnd), model.caches(9, 5, cached, hnd=hnd)


def some_slots() -> Tensor:
    slots = torch.randperm(45, generator=torch.Generator().manual_seed(1))[:29]
    slots[7] = -1
    return slots


def assert_same(got: CacheTable, want: CacheTable) -> None:
    """Equal bits up to one rounding step (fused multiply-add), NaN poison in the same places."""
    for mine, truth in zip(got.views, want.views, strict=True):
        assert torch.equal(mine.isnan(), truth.isnan())
        a, b = (view.float().nan_to_num(0.0) for view in (mine, truth))
        step = {1: 2**-3, 2: 2**-7 if mine.dtype == torch.bfloat16 else 2**-10}[mine.itemsize]
        torch.testing.assert_close(a, b, rtol=step, atol=1e-6)
        assert float((a != b).float().mean()) < 0.002


@by_name
@cache_dtypes
@pytest.mark.parametrize("hnd", [False, True], ids=["NHD", "HND"])
def test_inject(model: Geometry, dtype: torch.dtype, cached: torch.dtype, hnd: bool) -> None:
    items, rope = model.items(40, dtype), model.rope()
    got, want = twins(model, cached, hnd=hnd)
    inject_triton.inject(items, shuffled_segments(), some_slots(), rope, got)
    inject_reference.inject(items, shuffled_segments(), some_slots(), rope, want)
    assert_same(got, want)


@by_name
@cache_dtypes
def test_extract(model: Geometry, dtype: torch.dtype, cached: torch.dtype) -> None:
    items, slots = model.items(40, dtype), some_slots()
    caches, _ = twins(model, cached)
    inject_reference.inject(items, shuffled_segments(), slots, model.rope(), caches)
    slots = slots[slots >= 0]
    got = torch.full_like(items[:28], math.nan)
    want = torch.full_like(items[:28], math.nan)
    extract_triton.extract(caches, slots, got)
    extract_reference.extract(caches, slots, want)
    assert torch.equal(got, want)
