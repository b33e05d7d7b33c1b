"""How to turn stored K from the position it was computed at to the position where it lands.

Owns: the frequencies and pairing of a model's rotary layers, and the turn of one position shift.
Does not own: reading them out of a model (the connector does), or applying the turn (ops/inject).
Invariant: angles come from the *difference* of positions, with unit (mscale-free) cos and sin, so
a YaRN model's K keeps the magnitude it was stored with.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

NOPE = -1
"""Row index of a layer without rotary embedding: its K is copied."""


@dataclass(frozen=True)
class RopeTable:
    """Rotary geometry of all attention layers of a model.

    Args:
        inv_freq: fp32 [F, R/2], one row per RoPE base (radians per position).
        rows: for each layer the row of `inv_freq` it uses, or `NOPE`.
        is_neox: True pairs channel j with j + R/2, False pairs 2j with 2j + 1 (GPT-J).
        offset: first rotated channel of a head; 0 except for MLA, where the rope part comes last.

    Raises:
        ValueError: a shape, dtype or row index does not fit.
    """

    inv_freq: Tensor
    rows: tuple[int, ...]
    is_neox: bool = True
    offset: int = 0

    def __post_init__(self) -> None:
        if self.inv_freq.dim() != 2 or self.inv_freq.dtype != torch.float32:
            shape, dtype = tuple(self.inv_freq.shape), self.inv_freq.dtype
            raise ValueError(f"inv_freq is {dtype} {shape}: give float32 [bases, rotary_dim / 2]")
        bad = [row for row in self.rows if not NOPE <= row < self.inv_freq.shape[0]]
        if bad:
            raise ValueError(
                f"rows {bad} are outside the {self.inv_freq.shape[0]} rows of inv_freq: "
                f"name an existing row, or NOPE ({NOPE}) for a layer without rotary embedding"
            )
        if self.offset < 0:
            raise ValueError(f"offset is {self.offset}: the first rotated channel is 0 or later")

    @classmethod
    def uniform(
        cls, inv_freq: Tensor, num_layers: int, *, is_neox: bool = True, offset: int = 0
    ) -> RopeTable:
        """One base for all layers: `inv_freq` is fp32 [R/2]."""
        return cls(inv_freq.reshape(1, -1), (0,) * num_layers, is_neox, offset)

    @property
    def rotary_dim(self) -> int:
        """Number of rotated channels per head, R."""
        return 2 * self.inv_freq.shape[1]

    @property
    def num_layers(self) -> int:
        """Number of layers the table describes."""
        return len(self.rows)

    def check(self, num_layers: int, head_dim: int) -> None:
        """Raise ValueError unless this table fits items of that many layers and channels."""
        if num_layers != self.num_layers:
            raise ValueError(
                f"items have {num_layers} layers, the rope table {self.num_layers}: "
                "give one row per attention layer, NOPE where a layer has no rotary embedding"
            )
        if self.offset + self.rotary_dim > head_dim:
            raise ValueError(
                f"rotated channels end at {self.offset + self.rotary_dim}, heads at {head_dim}: "
                "take rotary_dim and offset from the model's rotary module"
            )

    def turns(self, deltas: Tensor) -> Tensor:
        """Cos and sin of each shift.

        Angles are formed in float64 (a shift of 100k positions loses 3e-3 rad in float32), the
        result is rounded to float32 once.

        Args:
            deltas: int64 [S], target position − built position.

        Returns:
            fp32 [S, F, 2, R/2], cos then sin, on the device of `deltas`.
        """
        freq = self.inv_freq.to(deltas.device, torch.float64)
        angle = deltas.to(torch.float64)[:, None, None] * freq
        return torch.stack((angle.cos(), angle.sin()), dim=2).to(torch.float32)

    def layers_by_row(self) -> list[tuple[int, Sequence[int]]]:
        """Rotated layers grouped by their row of `inv_freq`, NoPE layers left out."""
        used = sorted(set(self.rows) - {NOPE})
        return [(r, [i for i, row in enumerate(self.rows) if row == r]) for r in used]
