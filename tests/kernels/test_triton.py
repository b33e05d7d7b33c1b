"""The Triton kernels against the reference, in Triton's interpreter or on a GPU."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from inferscale_kernels.caches import CacheTable
from inferscale_kernels.ops.extract import reference as extract_reference
from inferscale_kernels.ops.extract import triton as extract_triton
from inferscale_kernels.ops.inject import reference as inject_reference
from inferscale_kernels.ops.inject import triton as inject_triton
from inferscale_kernels.ops.inject.triton_codes import inject_codes
from inferscale_kernels.ops.quantize import FormatName, ItemCodec, calibrate
from inferscale_kernels.rope import NOPE, RopeTable
from inferscale_kernels.segments import segment_table

from .builders import DEVICE, GEOMETRIES, Geometry, shuffled_segments
from .strategies import tables

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
    on_device = model.caches(9, 5, cached, hnd=hnd, device=DEVICE)
    return on_device, model.caches(9, 5, cached, hnd=hnd)


def some_slots() -> Tensor:
    slots = torch.randperm(45, generator=torch.Generator().manual_seed(1))[:29]
    slots[7] = -1
    return slots


def assert_same(got: CacheTable, want: CacheTable) -> None:
    """Equal bits, NaN poison included."""
    for mine, truth in zip(got.views, want.views, strict=True):
        bits = torch.uint8 if mine.itemsize == 1 else torch.int16
        assert torch.equal(mine.cpu().view(bits), truth.view(bits))


@by_name
@cache_dtypes
def test_inject(model: Geometry, dtype: torch.dtype, cached: torch.dtype) -> None:
    items, rope = model.items(40, dtype), model.rope()
    # Half of the models in the engine's HND order, half in its NHD order.
    got, want = twins(model, cached, hnd=GEOMETRIES.index(model) % 2 == 0)
    inject_triton.inject(items.to(DEVICE), shuffled_segments(), some_slots(), rope, got)
    inject_reference.inject(items, shuffled_segments(), some_slots(), rope, want)
    assert_same(got, want)


@by_name
@cache_dtypes
def test_extract(model: Geometry, dtype: torch.dtype, cached: torch.dtype) -> None:
    items, slots = model.items(40, dtype), some_slots()
    on_device, caches = twins(model, cached)
    inject_reference.inject(items, shuffled_segments(), slots, model.rope(), caches)
    for mine, truth in zip(on_device.views, caches.views, strict=True):
        mine.copy_(truth)
    slots = slots[slots >= 0]
    got = torch.full_like(items[:28], math.nan, device=DEVICE)
    want = torch.full_like(items[:28], math.nan)
    extract_triton.extract(on_device, slots, got)
    extract_reference.extract(caches, slots, want)
    assert torch.equal(got.cpu(), want)


@pytest.mark.parametrize(
    ("model", "name", "cached"),
    [(model, name, torch.bfloat16) for model in GEOMETRIES for name in ("int8", "k8v4")]
    + [(model, "int8", torch.float16) for model in GEOMETRIES[:3]]
    + [(model, "k8v4", torch.float8_e4m3fn) for model in GEOMETRIES[:3]],
    ids=str,
)
def test_inject_of_compressed_items(model: Geometry, name: FormatName, cached: torch.dtype) -> None:
    dtype = torch.float16 if cached == torch.float16 else torch.bfloat16
    items, rope = model.items(40, dtype), model.rope()
    codec = ItemCodec(calibrate(items, rope), name, not model.mla)
    codes = codec.encode(items)
    got, want = twins(model, cached)
    inject_codes(codes.to(DEVICE), shuffled_segments(), some_slots(), rope, got, codec)
    inject_reference.inject(codes, shuffled_segments(), some_slots(), rope, want, codec)
    assert_same(got, want)


@given(
    rows=tables(), slots=st.permutations(range(35)), dropped=st.sets(st.integers(0, 29), max_size=5)
)
@settings(max_examples=20, deadline=None)
def test_any_table_and_slots(
    rows: list[tuple[int, int, int, int]], slots: list[int], dropped: set[int]
) -> None:
    model = Geometry("odd", layers=2, heads=3, head_dim=20, rotary_dim=12, rows=(0, 0))
    items = model.items(24)
    where = torch.tensor([-1 if i in dropped else slot for i, slot in enumerate(slots[:30])])
    got, want = (model.caches(7, 5, torch.bfloat16, device=d) for d in (DEVICE, "cpu"))
    inject_triton.inject(items.to(DEVICE), segment_table(rows), where, model.rope(), got)
    inject_reference.inject(items, segment_table(rows), where, model.rope(), want)
    assert_same(got, want)


def test_layers_may_have_their_own_slot_lists() -> None:
    model = Geometry("llama")
    items, table = model.items(6), segment_table([(0, 6, 3, 0)])
    slots = torch.stack((torch.arange(6), torch.tensor([-1, -1, 19, 8, 7, 6])))
    got, want = (
        CacheTable(model.caches(4, 5, torch.bfloat16, device=d).views, slot_rows=(0, 1, 0))
        for d in (DEVICE, "cpu")
    )
    inject_triton.inject(items.to(DEVICE), table, slots, model.rope(), got)
    inject_reference.inject(items, table, slots, model.rope(), want)
    assert_same(got, want)


def test_unaligned_views_are_served() -> None:
    """Views that start 2 bytes into an allocation: no 16-byte access may be assumed."""
    model = Geometry("llama")
    items, table = model.items(8), segment_table([(0, 8, 3, 0)])
    tables = []
    for device in (DEVICE, "cpu"):
        pages = torch.full((3, 1 + 2 * 3 * 5 * 128), math.nan, device=device).bfloat16()
        views = [page[1:] for page in pages]
        tables.append(CacheTable.of([view.view(2, 3, 5, 128) for view in views]))
    got, want = tables
    assert got.alignment == 1
    inject_triton.inject(items.to(DEVICE), table, torch.arange(8), model.rope(), got)
    inject_reference.inject(items, table, torch.arange(8), model.rope(), want)
    assert_same(got, want)


@pytest.mark.parametrize("bits", [range(256)], ids=["all-codes"])
def test_fp8_bits_are_torchs(bits: range) -> None:
    """Every fp8 code survives extract and inject; halfway values round to even as torch does."""
    values = torch.tensor(list(bits), dtype=torch.uint8).view(torch.float8_e4m3fn).float()
    finite = values[values.isfinite()]
    between = (finite[:-1] + finite[1:]) / 2
    special = torch.tensor([math.nan, math.inf, -math.inf, 1e9, 464.0, 465.0, 2**-10, 2**-11, -0.0])
    x = torch.cat((values, between, special)).bfloat16()
    x = torch.nn.functional.pad(x, (0, -len(x) % 64)).view(-1, 1, 1, 64)
    items = torch.stack((x, x), dim=2).view(len(x), 1, 2, 1, 64).contiguous()
    model = Geometry("fp8", layers=1, heads=1, rows=(NOPE,))
    got, want = (
        model.caches(-(-len(x) // 16), 16, torch.float8_e4m3fn, device=d) for d in (DEVICE, "cpu")
    )
    slots, table = torch.arange(len(x)), segment_table([(0, len(x), 5, 0)])
    rope = RopeTable(torch.ones(1, 32), (NOPE,))
    inject_triton.inject(items.to(DEVICE), table, slots, rope, got)
    inject_reference.inject(items, table, slots, rope, want)
    assert_same(got, want)
    read, truth = torch.empty_like(items, device=DEVICE), torch.empty_like(items)
    extract_triton.extract(got, slots, read)
    extract_reference.extract(want, slots, truth)
    assert torch.equal(read.cpu().isnan(), truth.isnan())
    assert torch.equal(read.cpu().nan_to_num(), truth.nan_to_num())
