"""A layer's geometry is what it was observed to do; what nothing explains is declined."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch

pytest.importorskip("vllm")

from inferscale_kernels.rope import NOPE
from inferscale_vllm.layers import AttentionLayers, UnsupportedModel
from inferscale_vllm.observe import Observed
from inferscale_vllm.rotary import rope_table

HEADS, SIZE = 2, 16
POSITIONS = (3, 4, 20, 259, 700, 2047)


class Rotary(torch.nn.Module):
    """As the rotary modules of transformers: nothing but a buffer says what it does."""

    def __init__(self, base: float, *, rotary_dim: int = SIZE, rope_type: str = "default") -> None:
        super().__init__()
        self.rope_type = rope_type
        frequencies = base ** (-torch.arange(0, rotary_dim, 2, dtype=torch.float32) / rotary_dim)
        self.register_buffer("inv_freq", frequencies)
        self.register_buffer("original_inv_freq", frequencies / 7)


def model(*rotary: torch.nn.Module) -> torch.nn.Module:
    return torch.nn.ModuleList(rotary)


def turned(raw: torch.Tensor, rotary: Any, *, is_neox: bool = True) -> torch.Tensor:
    """K [P, N, H, D] of tokens at `POSITIONS`, by the textbook's formula, one pair at a time."""
    out, half = raw.double().expand(len(POSITIONS), *raw.shape).clone(), len(rotary.inv_freq)
    for pair, frequency in enumerate(rotary.inv_freq.double()):
        left, right = (pair, pair + half) if is_neox else (2 * pair, 2 * pair + 1)
        for row, position in enumerate(POSITIONS):
            angle = position * frequency
            a, b = raw[..., left].double(), raw[..., right].double()
            out[row, ..., left] = a * angle.cos() - b * angle.sin()
            out[row, ..., right] = b * angle.cos() + a * angle.sin()
    return out.to(torch.bfloat16)


def observed(*keys: torch.Tensor) -> tuple[AttentionLayers, Observed]:
    module = SimpleNamespace(num_kv_heads=HEADS, head_size=SIZE)
    layers = AttentionLayers([f"l{i}" for i in range(len(keys))], [module] * len(keys), [])
    return layers, Observed(POSITIONS, torch.stack(keys))


@pytest.fixture
def raw() -> torch.Tensor:
    return torch.randn(2, HEADS, SIZE, generator=torch.Generator().manual_seed(0))


def test_two_bases_and_a_layer_without(raw: torch.Tensor) -> None:
    near, far = Rotary(1e4), Rotary(1e6)
    flat = raw.expand(len(POSITIONS), *raw.shape).to(torch.bfloat16)
    layers, seen = observed(turned(raw, far), flat, turned(raw, near), turned(raw, far))
    table = rope_table(model(near, far), layers, seen)
    assert table.rows == (0, NOPE, 1, 0)
    assert torch.equal(table.inv_freq, torch.stack((far.inv_freq, near.inv_freq)))
    assert table.is_neox


@pytest.mark.parametrize("is_neox", [True, False])
@pytest.mark.parametrize("rotary_dim", [SIZE, 4])
def test_pairing_and_size_are_seen(raw: torch.Tensor, is_neox: bool, rotary_dim: int) -> None:
    rotary = Rotary(1e4, rotary_dim=rotary_dim)
    layers, seen = observed(turned(raw, rotary, is_neox=is_neox))
    table = rope_table(model(Rotary(1e4, rotary_dim=8), rotary), layers, seen)
    assert (table.is_neox, table.rotary_dim) == (is_neox, rotary_dim)


def test_only_far_positions_tell_slow_scalings_apart(raw: torch.Tensor) -> None:
    """Llama 3's scaling changes the slow channels only."""
    plain, scaled = Rotary(5e5), Rotary(5e5)
    scaled.inv_freq[4:] /= 8
    layers, seen = observed(turned(raw, scaled))
    assert torch.equal(rope_table(model(plain, scaled), layers, seen).inv_freq[0], scaled.inv_freq)
    with pytest.raises(UnsupportedModel, match="l0: K moved"):
        rope_table(model(plain), layers, seen)


def test_what_is_not_a_rotation_is_declined(raw: torch.Tensor) -> None:
    """Learned positions are added, not turned."""
    rotary = Rotary(1e4)
    learned = torch.randn(
        len(POSITIONS), 1, HEADS, SIZE, generator=torch.Generator().manual_seed(1)
    )
    layers, seen = observed((raw + learned).to(torch.bfloat16))
    with pytest.raises(UnsupportedModel, match="differs from what the model computes"):
        rope_table(model(rotary), layers, seen)
    with pytest.raises(UnsupportedModel, match="by a module that is not known"):
        rope_table(model(), layers, seen)


def test_frequencies_that_change_with_the_batch_are_no_candidates(raw: torch.Tensor) -> None:
    rotary = Rotary(1e4, rope_type="dynamic")
    layers, seen = observed(turned(raw, rotary))
    with pytest.raises(UnsupportedModel):
        rope_table(model(rotary), layers, seen)


def test_layers_of_different_pairing_are_declined(raw: torch.Tensor) -> None:
    rotary = Rotary(1e4)
    layers, seen = observed(turned(raw, rotary), turned(raw, rotary, is_neox=False))
    with pytest.raises(UnsupportedModel, match="layers differ"):
        rope_table(model(rotary), layers, seen)


def test_a_model_without_positions_is_copied(raw: torch.Tensor) -> None:
    layers, seen = observed(raw.expand(len(POSITIONS), *raw.shape).to(torch.bfloat16))
    assert rope_table(model(), layers, seen).rows == (NOPE,)
