"""Compressed items in plain torch: int8, and int8 K with int4 V (k8v4).

Owns: the byte layout and the meaning of the codes. Does not own: when to compress (the bank).
Invariant: the K scale of the two channels of a rotated pair is the same, so codes of K stored
after RoPE can be turned to any position after decoding, and outlier channels cost nothing.

One token is one row of bytes, planes over all layers, each plane starting where a vector load can:

    K codes   int8 [L, H, D]
    V codes   int8 [L, H, D], or for k8v4 uint8 [L, H, D/2]: channel j low, j + D/2 high nibble
    K scales  bf16 [L, H]
    V scales  bf16 [L, H], or for k8v4 [L, H, ⌈D/32⌉]
    zeros up to a multiple of 16

Scales are bf16, not fp16: codes are computed from the rounded scale, so its range matters and its
precision does not.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import torch
from torch import Tensor

from inferscale_kernels.layout import ItemShape, item_shape, k_plane, v_plane
from inferscale_kernels.rope import NOPE, RopeTable

GROUP = 32
"""Channels that share one int4 scale."""

_CHUNK_TOKENS = 128

FormatName = Literal["int8", "k8v4"]


@dataclass(frozen=True)
class ItemCodec:
    """How a model's items are compressed.

    Args:
        k_scale: fp32 [L, H, D], > 0, equal within every rotated pair; from `calibrate`.
        name: "int8" or "k8v4".
        has_values: False for MLA, which stores no V.

    Raises:
        ValueError: unknown name, a scale that is not positive, or an odd head for k8v4.
    """

    k_scale: Tensor
    name: FormatName = "int8"
    has_values: bool = True

    def __post_init__(self) -> None:
        if self.name not in ("int8", "k8v4"):
            raise ValueError(f"no item format {self.name!r}: choose int8 or k8v4")
        if self.k_scale.dim() != 3 or not bool((self.k_scale > 0).all()):
            raise ValueError("k_scale must be positive [L, H, D]: calibrate on real items")
        if self.name == "k8v4" and self.k_scale.shape[2] % 2:
            raise ValueError(f"k8v4 needs an even head size, not {self.k_scale.shape[2]}: use int8")

    @property
    def shape(self) -> ItemShape:
        """Axes of decoded items, with 0 tokens."""
        layers, heads, dim = self.k_scale.shape
        return ItemShape(0, layers, heads, dim, self.has_values)

    @property
    def v_groups(self) -> int:
        """V scales per head."""
        if not self.has_values:
            return 0
        return -(-self.k_scale.shape[2] // GROUP) if self.name == "k8v4" else 1

    @cached_property
    def planes(self) -> tuple[int, int, int, int]:
        """Byte offsets of V codes, K scales, V scales, and the size of a token."""
        layers, heads, dim = self.k_scale.shape
        rows = layers * heads
        v_width = (dim // 2 if self.name == "k8v4" else dim) if self.has_values else 0
        v_codes = rows * dim
        k_scales = v_codes + rows * v_width
        k_scales += k_scales % 2
        v_scales = k_scales + 2 * rows
        end = v_scales + 2 * rows * self.v_groups
        return v_codes, k_scales, v_scales, -(-end // 16) * 16

    @property
    def token_bytes(self) -> int:
        """Stored bytes per token, all layers."""
        return self.planes[3]

    def encode(self, items: Tensor) -> Tensor:
        """Compress [T, L, 2, H, D] (or MLA [T, L, 1, C]) to uint8 [T, token_bytes]."""
        shape = item_shape(items)
        if shape._replace(tokens=0) != self.shape:
            raise ValueError(f"items are {shape}, the codec is for {self.shape}: another model")
        rows = items.new_zeros(shape.tokens, self.token_bytes, dtype=torch.uint8)
        # Piece by piece, so that the fp32 copies stay in cache.
        for start in range(0, shape.tokens, _CHUNK_TOKENS):
            chunk = slice(start, start + _CHUNK_TOKENS)
            self._encode_into(items[chunk], rows[chunk])
        return rows

    def _encode_into(self, items: Tensor, rows: Tensor) -> None:
        v_codes, k_scales, v_scales, _ = self.planes
        codes, scale = _to_codes(k_plane(items).float() / self.k_scale.to(items.device), 127)
        rows[:, :v_codes] = codes.to(torch.int8).flatten(1).view(torch.uint8)
        rows[:, k_scales:v_scales] = _bytes(scale)
        if self.has_values:
            codes, scale = self._encode_values(v_plane(items).float())
            rows[:, v_codes : v_codes + codes[0].numel()] = codes.flatten(1)
            rows[:, v_scales : v_scales + scale[0].numel() * 2] = _bytes(scale)

    def _encode_values(self, values: Tensor) -> tuple[Tensor, Tensor]:
        if self.name == "int8":
            codes, scale = _to_codes(values, 127)
            return codes.to(torch.int8).view(torch.uint8), scale
        dim = values.shape[-1]
        padded = torch.nn.functional.pad(values, (0, self.v_groups * GROUP - dim))
        codes, scale = _to_codes(padded.view(*values.shape[:-1], self.v_groups, GROUP), 7)
        low, high = (codes.flatten(-2)[..., :dim] + 8).to(torch.uint8).chunk(2, dim=-1)
        return low | (high << 4), scale

    def decode(self, rows: Tensor, dtype: torch.dtype) -> Tensor:
        """Restore items from uint8 [T, token_bytes], computed in fp32 and rounded once."""
        layers, heads, dim = self.k_scale.shape
        v_codes, k_scales, v_scales, _ = self.planes
        flat = (rows.shape[0], layers, heads)
        codes = rows[:, :v_codes].view(torch.int8).reshape(*flat, dim).float()
        scale = _floats(rows[:, k_scales:v_scales]).reshape(*flat, 1)
        keys = codes * (self.k_scale.to(rows.device) * scale)
        if not self.has_values:
            return keys.to(dtype)
        scale = _floats(rows[:, v_scales : v_scales + 2 * layers * heads * self.v_groups])
        values = self._decode_values(
            rows[:, v_codes:k_scales], scale.reshape(*flat, self.v_groups), dim
        )
        return torch.stack((keys, values), dim=2).to(dtype)

    def _decode_values(self, codes: Tensor, scale: Tensor, dim: int) -> Tensor:
        flat = scale.shape[:3]
        if self.name == "int8":
            return codes.view(torch.int8)[:, : flat[1] * flat[2] * dim].reshape(*flat, dim) * scale
        packed = codes[:, : flat[1] * flat[2] * (dim // 2)].reshape(*flat, dim // 2)
        both = torch.cat((packed & 15, packed >> 4), dim=-1).float() - 8
        return both * scale.repeat_interleave(GROUP, dim=-1)[..., :dim]


def calibrate(items: Tensor, rope: RopeTable) -> Tensor:
    """The static K scale of a model, from some thousand tokens of its own items.

    A pair's scale is its largest radius, which no rotation changes; an unrotated channel's is its
    largest magnitude.

    Args:
        items: [T, L, 2, H, D] (or MLA [T, L, 1, C]).
        rope: rotary geometry of the layers.

    Returns:
        fp32 [L, H, D], all positive.
    """
    keys = k_plane(items).float()
    scale = keys.abs().amax(dim=0)
    window = slice(rope.offset, rope.offset + rope.rotary_dim)
    rotated = keys[..., window]
    first, second = (
        rotated.chunk(2, dim=-1) if rope.is_neox else (rotated[..., 0::2], rotated[..., 1::2])
    )
    radius = torch.hypot(first, second).amax(dim=0)
    paired = torch.cat((radius, radius), -1) if rope.is_neox else radius.repeat_interleave(2, -1)
    for layer, row in enumerate(rope.rows):
        if row != NOPE:
            scale[layer, :, window] = paired[layer]
    return scale.clamp_min(torch.finfo(torch.float32).tiny * 2**24)


def _to_codes(values: Tensor, largest: int) -> tuple[Tensor, Tensor]:
    """Symmetric codes over the last axis, and their bf16 scale (without that axis)."""
    scale = (values.abs().amax(dim=-1) / largest).to(torch.bfloat16)
    step = scale.float().unsqueeze(-1)
    codes = torch.where(step > 0, values / step, 0.0).round_()
    return codes.clamp_(-largest, largest), scale


def _bytes(scale: Tensor) -> Tensor:
    return scale.flatten(1).contiguous().view(torch.uint8)


def _floats(stored: Tensor) -> Tensor:
    return stored.contiguous().view(torch.bfloat16).float()
