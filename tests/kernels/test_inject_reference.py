"""The reference op against first principles: a loop over tokens in float64."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from inferscale_kernels.caches import CacheTable
from inferscale_kernels.ops.extract import extract
from inferscale_kernels.ops.inject import empty_kv, inject, rotate, rotate_into
from inferscale_kernels.rope import NOPE, RopeTable
from inferscale_kernels.segments import segment_table

from .builders import GEOMETRIES, Geometry, shuffled_segments

by_name = pytest.mark.parametrize("model", GEOMETRIES, ids=lambda model: model.name)


def turned(channels: list[float], freq: list[float], delta: int, neox: bool) -> list[float]:
    """Rotate one head's rotary channels by `delta` positions, pair by pair."""
    half, out = len(freq), list(channels)
    for j in range(half):
        a, b = (j, j + half) if neox else (2 * j, 2 * j + 1)
        cos, sin = math.cos(delta * freq[j]), math.sin(delta * freq[j])
        out[a] = channels[a] * cos - channels[b] * sin
        out[b] = channels[b] * cos + channels[a] * sin
    return out


def expected_k(items: Tensor, segments: Tensor, rope: RopeTable) -> Tensor:
    keys = items[:, :, 0] if items.dim() == 5 else items
    rows = int((segments[:, 3] + segments[:, 1]).max())
    out = torch.full((items.shape[1], rows, *keys.shape[2:]), math.nan, dtype=torch.float64)
    window = slice(rope.offset, rope.offset + rope.rotary_dim)
    for source, count, delta, target in segments.tolist():
        for i in range(count):
            for layer, row in enumerate(rope.rows):
                for head in range(keys.shape[2]):
                    k = keys[source + i, layer, head].double()
                    if row != NOPE:
                        freq = rope.inv_freq[row].tolist()
                        k[window] = torch.tensor(
                            turned(k[window].tolist(), freq, delta, rope.is_neox)
                        ).double()
                    out[layer, target + i, head] = k
    return out


@by_name
def test_rotate_is_the_textbook_rotation(model: Geometry) -> None:
    items, segments, rope = model.items(40, torch.float32), shuffled_segments(), model.rope()
    torch.testing.assert_close(
        rotate(items, segments, rope).k.double(),
        expected_k(items, segments, rope),
        atol=2e-6,
        rtol=1e-5,
    )


@by_name
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_rotate_rounds_once(model: Geometry, dtype: torch.dtype) -> None:
    items, segments, rope = model.items(40, dtype), shuffled_segments(), model.rope()
    in_fp32 = rotate(items.float(), segments, rope)
    kv = rotate(items, segments, rope)
    assert torch.equal(kv.k, in_fp32.k.to(dtype))
    assert torch.equal(kv.v, in_fp32.v.to(dtype))


@by_name
def test_unmoved_tokens_keep_their_bits(model: Geometry) -> None:
    items = model.items(12)
    items.view(torch.int16)[3:5] = -32768  # negative zeros
    items[5:7] = math.nan
    kv = rotate(items, segment_table([(2, 8, 0, 0)]), model.rope())
    keys = items[:, :, 0] if items.dim() == 5 else items
    assert torch.equal(kv.k.view(torch.int16), keys[2:10].transpose(0, 1).view(torch.int16))
    if not model.mla:
        assert torch.equal(
            kv.v.view(torch.int16), items[2:10, :, 1].transpose(0, 1).view(torch.int16)
        )


def test_layers_without_rope_keep_their_bits() -> None:
    model = Geometry("nope", rows=(0, NOPE, 0))
    items = model.items(9)
    items[:, 1, 0] = -0.0
    kv = rotate(items, segment_table([(0, 9, 77, 0)]), model.rope())
    assert torch.equal(kv.k[1].view(torch.int16), items[:, 1, 0].view(torch.int16))
    assert not torch.equal(kv.k[0], items[:, 0, 0])


@by_name
def test_turning_back_returns_within_rounding(model: Geometry) -> None:
    items, rope = model.items(20, torch.float32), model.rope()
    forth = rotate(items, segment_table([(0, 20, 4321, 0)]), rope)
    again = items.clone()
    (again[:, :, 0] if items.dim() == 5 else again).copy_(forth.k.transpose(0, 1))
    back = rotate(again, segment_table([(0, 20, -4321, 0)]), rope)
    keys = items[:, :, 0] if items.dim() == 5 else items
    torch.testing.assert_close(back.k.transpose(0, 1), keys, atol=5e-6, rtol=1e-5)


def test_uncovered_rows_are_left_alone() -> None:
    model = Geometry("llama")
    items = model.items(10)
    out = empty_kv(items, 12)
    out.k.fill_(math.nan), out.v.fill_(math.nan)
    rotate_into(items, segment_table([(0, 3, 5, 4)]), model.rope(), out)
    covered = torch.zeros(12, dtype=torch.bool)
    covered[4:7] = True
    for tensor in out:
        assert torch.equal(tensor.isnan().any(dim=-1).all(dim=-1)[0], ~covered)
        assert not tensor[:, covered].isnan().any()


@by_name
@pytest.mark.parametrize("hnd", [False, True], ids=["NHD", "HND"])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_extract_reads_what_inject_wrote(model: Geometry, hnd: bool, dtype: torch.dtype) -> None:
    items, segments = model.items(40, dtype), shuffled_segments()
    caches = model.caches(9, 5, dtype, hnd=hnd)
    slots = torch.randperm(45, generator=torch.Generator().manual_seed(1))[:29]
    slots[7] = -1
    inject(items, segments, slots, model.rope(), caches)
    kept = slots >= 0
    out = extract(caches, slots[kept], torch.full_like(items[: int(kept.sum())], math.nan))
    kv = rotate(items, segments, model.rope())
    keys = out[:, :, 0] if items.dim() == 5 else out
    assert torch.equal(keys.transpose(0, 1), kv.k[:, kept])
    if not model.mla:
        assert torch.equal(out[:, :, 1].transpose(0, 1), kv.v[:, kept])
    written = torch.stack([view.isnan().sum() for view in caches.views])
    assert bool((written == (45 - 28) * caches.views[0][0, :, 0].numel()).all())


def test_fp8_cache_holds_value_over_scale() -> None:
    model = Geometry("llama")
    items = model.items(40)
    items[0, 0, 0, 0, 0] = 1e4  # saturates
    caches = model.caches(9, 5, torch.float8_e4m3fn)
    slots = torch.arange(29)
    inject(items, shuffled_segments(), slots, model.rope(), caches)
    kv = rotate(items, shuffled_segments(), model.rope())
    for layer in range(3):
        got = caches.views[layer].permute(0, 2, 1, 3).reshape(45, 3, 128)[:29]
        k = (kv.k[layer].float() / caches.k_scales[layer]).clamp(-448, 448)
        assert torch.equal(got[..., :64].float(), k.to(torch.float8_e4m3fn).float())
    out = extract(caches, slots, torch.empty_like(items[:29]))
    shift = (out[:, :, 1].transpose(0, 1).float() - kv.v.float()).abs()
    assert float((shift / kv.v.float().abs().clamp(min=0.05)).max()) < 2**-3


def test_layers_may_have_their_own_slot_lists() -> None:
    model = Geometry("llama")
    items = model.items(6)
    views = model.caches(4, 4, torch.bfloat16).views
    caches = CacheTable(views, slot_rows=(0, 1, 0))
    slots = torch.stack((torch.arange(6), torch.tensor([-1, -1, 9, 8, 7, 6])))
    inject(items, segment_table([(0, 6, 0, 0)]), slots, model.rope(), caches)
    assert torch.equal(views[1][2, :, 1], torch.cat((items[2, 1, 0], items[2, 1, 1]), dim=-1))
    assert bool(views[1][0].isnan().all())
    assert torch.equal(views[2][1, :, 1], torch.cat((items[5, 2, 0], items[5, 2, 1]), dim=-1))


@pytest.mark.parametrize(
    ("rows", "cause"),
    [
        ([(0, 11, 0, 0)], "staged tokens"),
        ([(-1, 2, 0, 0)], "staged tokens"),
        ([(0, 0, 0, 0)], "staged tokens"),
        ([(0, 4, 0, 9)], "target rows"),
        ([(0, 4, 0, 0), (4, 4, 0, 3)], "same target row"),
    ],
)
def test_impossible_tables_are_refused(rows: list[tuple[int, int, int, int]], cause: str) -> None:
    model = Geometry("llama")
    items = model.items(10)
    with pytest.raises(ValueError, match=cause):
        rotate_into(items, segment_table(rows), model.rope(), empty_kv(items, 10))


def test_misfits_are_refused() -> None:
    model = Geometry("llama")
    items, table = model.items(4), segment_table([(0, 4, 0, 0)])
    with pytest.raises(ValueError, match="layers"):
        rotate(items[:, :2].contiguous(), table, model.rope())
    with pytest.raises(ValueError, match="contiguous"):
        rotate(items[:, :2], table, model.rope())
    with pytest.raises(ValueError, match="shape"):
        rotate(items[0], table, model.rope())
    with pytest.raises(ValueError, match="another model"):
        caches = Geometry("wide", head_dim=128).caches(2, 4, torch.bfloat16)
        inject(items, table, torch.arange(4), model.rope(), caches)
    with pytest.raises(ValueError, match="NOPE"):
        RopeTable(torch.ones(1, 4), (0, 3))
