"""Compressed items: sizes, error bounds, and that turning after decoding is sound."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from inferscale_kernels.ops.inject import rotate
from inferscale_kernels.ops.quantize import FormatName, ItemCodec, calibrate
from inferscale_kernels.segments import segment_table

from .builders import GEOMETRIES, Geometry

by_name = pytest.mark.parametrize("model", GEOMETRIES, ids=lambda model: model.name)
formats = pytest.mark.parametrize("name", ["int8", "k8v4"])
LLAMA = Geometry("llama")


def codec_for(model: Geometry, items: Tensor, name: FormatName) -> ItemCodec:
    return ItemCodec(calibrate(items, model.rope()), name, not model.mla)


def planes(items: Tensor) -> tuple[Tensor, Tensor]:
    both = (items[:, :, 0], items[:, :, 1]) if items.dim() == 5 else (items, items[..., :0])
    return both[0].float(), both[1].float()


@by_name
@formats
def test_error_is_at_most_half_a_step(model: Geometry, name: FormatName) -> None:
    items = model.items(33)
    codec = codec_for(model, items, name)
    back = codec.decode(codec.encode(items), torch.float32)
    (k, v), (k2, v2) = planes(items), planes(back)
    ratio = k / codec.k_scale
    step = codec.k_scale * ratio.abs().amax(-1, keepdim=True) / 127
    assert bool(((k - k2).abs() <= step * 0.51).all())
    if model.mla:
        return
    largest = 127 if name == "int8" else 7
    assert bool(((v - v2).abs() <= v.abs().amax(-1, keepdim=True) / largest * 0.54).all())


@pytest.mark.parametrize(("name", "share"), [("int8", 0.53), ("k8v4", 0.43)], ids=["int8", "k8v4"])
@pytest.mark.parametrize("shape", [(30, 3, 64), (28, 8, 128), (18, 1, 256)], ids=str)
def test_bytes_per_token(name: FormatName, share: float, shape: tuple[int, int, int]) -> None:
    codec = ItemCodec(torch.ones(shape), name)
    assert codec.token_bytes <= share * 4 * shape[0] * shape[1] * shape[2]
    assert codec.token_bytes % 16 == 0


def test_outlier_channels_cost_nothing() -> None:
    """K-bias channels 30 times the others: per-token scales alone would lose 1.4 bits a channel."""
    items = LLAMA.items(256, torch.float32)
    items[:, :, 0, :, (7, 39)] += 30.0
    codec = codec_for(LLAMA, items, "int8")
    k, _ = planes(items)
    k2, _ = planes(codec.decode(codec.encode(items), torch.float32))
    quiet = torch.ones(64, dtype=torch.bool)
    quiet[[7, 39]] = False
    assert float((k - k2)[..., quiet].square().mean().sqrt()) < 0.012
    naive = (
        (k / k.abs().amax(-1, keepdim=True) * 127).round() * k.abs().amax(-1, keepdim=True) / 127
    )
    assert float((k - naive)[..., quiet].square().mean().sqrt()) > 0.06


@by_name
def test_calibration_does_not_depend_on_position(model: Geometry) -> None:
    items, rope = model.items(64, torch.float32), model.rope()
    turned = items.clone()
    kv = rotate(items, segment_table([(i, 1, 37 * i + 5, i) for i in range(64)]), rope)
    (turned[:, :, 0] if items.dim() == 5 else turned).copy_(kv.k.transpose(0, 1))
    torch.testing.assert_close(calibrate(turned, rope), calibrate(items, rope))


@formats
def test_zeros_tiny_and_huge_values_survive(name: FormatName) -> None:
    items = LLAMA.items(8)
    items[0] = 0.0
    items[1] *= 1e-30
    items[2] *= 1e20
    codec = ItemCodec(torch.ones(3, 3, 64), name)
    back = codec.decode(codec.encode(items), torch.float32)
    assert bool(back.isfinite().all())
    assert bool((back[0] == 0).all())
    for token in (1, 2):
        error = (back[token] - items[token].float()).abs().max()
        assert float(error / items[token].float().abs().max()) < (0.005 if name == "int8" else 0.09)


def test_misuse_is_refused() -> None:
    with pytest.raises(ValueError, match="int8 or k8v4"):
        ItemCodec(torch.ones(1, 1, 8), "int3")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="positive"):
        ItemCodec(torch.zeros(1, 1, 8))
    with pytest.raises(ValueError, match="another model"):
        ItemCodec(torch.ones(2, 3, 64)).encode(LLAMA.items(2))
