"""The compiled CPU loop against the reference: every bit."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from inferscale_kernels.ops.inject import cpu, empty_kv, reference
from inferscale_kernels.ops.quantize import FormatName, ItemCodec, calibrate
from inferscale_kernels.rope import NOPE
from inferscale_kernels.segments import segment_table

from .builders import GEOMETRIES, Geometry, shuffled_segments
from .strategies import tables

by_name = pytest.mark.parametrize("model", GEOMETRIES, ids=lambda model: model.name)
dtypes = pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)


def poisoned(items: Tensor, rows: int) -> reference.RotatedKV:
    out = empty_kv(items, rows)
    out.k.fill_(math.nan), out.v.fill_(math.nan)
    return out


def assert_same_bits(got: reference.RotatedKV, want: reference.RotatedKV) -> None:
    assert torch.equal(got.k.view(torch.int16), want.k.view(torch.int16))
    assert torch.equal(got.v.view(torch.int16), want.v.view(torch.int16))


@pytest.mark.parametrize(
    ("model", "dtype"),
    # One compilation per shape in bf16, and per style in fp16.
    [(model, torch.bfloat16) for model in GEOMETRIES]
    + [(model, torch.float16) for model in GEOMETRIES[:4]],
    ids=str,
)
def test_compiled_loop_equals_reference(model: Geometry, dtype: torch.dtype) -> None:
    items = model.items(40, dtype)
    got, want = poisoned(items, 33), poisoned(items, 33)
    cpu.rotate_into(items, shuffled_segments(), model.rope(), got)
    reference.rotate_into(items, shuffled_segments(), model.rope(), want)
    assert_same_bits(got, want)


@dtypes
def test_threads_share_the_layers(dtype: torch.dtype) -> None:
    model = Geometry("deep", layers=7, rows=(0,) * 7)
    items = model.items(400, dtype)  # above the one-thread bound
    table = segment_table([(i, 25, 3 * i + 1, 375 - i) for i in range(0, 400, 25)])
    got, want = poisoned(items, 400), poisoned(items, 400)
    cpu.rotate_into(items, table, model.rope(), got)
    reference.rotate_into(items, table, model.rope(), want)
    assert_same_bits(got, want)


@by_name
def test_items_are_read_where_they_lie(model: Geometry) -> None:
    parts = [model.items(n, seed=n) for n in (3, 8, 5)]
    items = [memoryview(part.view(torch.uint8).numpy().tobytes()) for part in parts]
    table = segment_table([(1, 2, 40, 6), (0, 6, 0, 0), (2, 3, -7, 9)])
    got, also, want = (poisoned(parts[0], 12) for _ in range(3))
    cpu.rotate_items_into(items, table, model.rope(), got)
    reference.rotate_items_into(items, table, model.rope(), also)
    joined = segment_table([(1, 2, 40, 6), (3, 6, 0, 0), (13, 3, -7, 9)])
    reference.rotate_into(torch.cat(parts), joined, model.rope(), want)
    assert_same_bits(got, want)
    assert_same_bits(also, want)


def test_items_that_do_not_fit_are_refused() -> None:
    model = Geometry("llama")
    item = model.items(4).view(torch.uint8).numpy().tobytes()
    out = empty_kv(model.items(1), 4)
    for items, table in (
        ([item[:-2]], [(0, 4, 0, 0)]),
        ([item, item], [(0, 4, 0, 0)]),
        ([item, item[: len(item) // 2]], [(0, 2, 0, 0), (0, 3, 0, 2)]),
    ):
        with pytest.raises(ValueError, match=r"items|item|target"):
            cpu.rotate_items_into(list(items), segment_table(table), model.rope(), out)


@given(rows=tables(), which=st.integers(0, len(GEOMETRIES) - 1))
@settings(max_examples=120, deadline=None)
def test_any_table(rows: list[tuple[int, int, int, int]], which: int) -> None:
    model = GEOMETRIES[which]
    items = model.items(24)
    got, want = poisoned(items, 30), poisoned(items, 30)
    cpu.rotate_into(items, segment_table(rows), model.rope(), got)
    reference.rotate_into(items, segment_table(rows), model.rope(), want)
    assert_same_bits(got, want)


@pytest.mark.parametrize(
    ("model", "name"),
    [
        (Geometry("llama"), "int8"),
        (Geometry("nope", rows=(0, NOPE, 0)), "k8v4"),
        (Geometry("partial-gptj", head_dim=40, rotary_dim=24, is_neox=False), "k8v4"),
        (Geometry("mla", heads=1, head_dim=96, rotary_dim=32, is_neox=False, mla=True), "int8"),
    ],
    ids=str,
)
def test_compressed_items_equal_reference(model: Geometry, name: FormatName) -> None:
    items, rope, table = model.items(40), model.rope(), shuffled_segments()
    codec = ItemCodec(calibrate(items, rope), name, not model.mla)
    codes = codec.encode(items)
    got, again, want = (poisoned(items, 33) for _ in range(3))
    cpu.rotate_into(codes, table, rope, got, codec)
    cpu.rotate_items_into([codes.numpy()] * len(table), table, rope, again, codec)
    reference.rotate_into(codes, table, rope, want, codec)
    assert_same_bits(got, want)
    assert_same_bits(again, want)
