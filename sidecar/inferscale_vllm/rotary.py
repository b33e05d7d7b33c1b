"""Finds out how each layer turns K with position, and proves it on the model itself.

Owns the choice of a layer's frequencies. They are read from the model's rotary modules, vLLM's or
those of transformers, never from its configuration; which of them a layer uses, and in which
pairing, is decided by what the layer was observed to do, so a model that skips RoPE in some layers
or has two bases needs no case of its own.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch

from inferscale_kernels.ops.inject import rotate
from inferscale_kernels.rope import NOPE, RopeTable
from inferscale_vllm import compat
from inferscale_vllm.layers import AttentionLayers, UnsupportedModel
from inferscale_vllm.observe import Observed

TOLERANCE = 2**-6
"""Of the largest K of a layer. Two steps of bf16 (2**-8 each), doubled: the model's own tables are
rounded to bf16 before use, ours are not."""
_SAME = 2**-9
"""As `TOLERANCE`, for a layer without positions: rows of one matrix product may round apart."""
_CHANGING = ("dynamic", "longrope")
"""RoPE types of transformers whose frequencies depend on the length of the running batch."""


@dataclass(frozen=True, eq=False)
class Candidate:
    """Frequencies that a layer may use: radians per position, fp32 [R/2], and the pairing."""

    source: str
    frequencies: torch.Tensor
    is_neox: bool

    @property
    def style(self) -> tuple[bool, int]:
        return (self.is_neox, 2 * len(self.frequencies))


def rope_table(model: Any, layers: AttentionLayers, observed: Observed) -> RopeTable:
    """Rotary geometry of all layers, each checked against what the layer did.

    Raises:
        UnsupportedModel: a layer's K is not what any of the model's rotary modules makes of it.
    """
    candidates = list(_candidates(model))
    used: list[Candidate] = []
    rows: list[int] = []
    for index, name in enumerate(layers.names):
        choice = _choose(name, observed, index, candidates, layers)
        if choice is not None and choice not in used:
            used.append(choice)
        rows.append(NOPE if choice is None else used.index(choice))
    if len({choice.style for choice in used}) > 1:
        raise UnsupportedModel(
            f"layers differ in rotary pairing or size: {sorted(c.style for c in used)}"
        )
    if not used:  # positions enter nowhere: K is copied
        used = [Candidate("none", torch.zeros(1), True)]
    table = torch.stack([choice.frequencies for choice in used])
    return RopeTable(table, tuple(rows), used[0].is_neox, layers.rope_offset)


def _choose(
    name: str,
    observed: Observed,
    index: int,
    candidates: list[Candidate],
    layers: AttentionLayers,
) -> Candidate | None:
    """The candidate that explains a layer's K; None if its K does not depend on position."""
    keys = observed.keys[index]
    scale = max(keys.float().abs().max().item(), 1e-12)
    if _difference(keys, keys[:1]) <= _SAME * scale:
        return None
    best, least = None, float("inf")
    for candidate in candidates:
        if layers.rope_offset + 2 * len(candidate.frequencies) > layers.head_size:
            continue
        error = _difference(keys, _turned(observed.positions, keys[0], candidate, layers)) / scale
        if error < least:
            best, least = candidate, error
    if best is None:
        raise UnsupportedModel(f"{name} turns K with position, by a module that is not known")
    if least > TOLERANCE:
        raise UnsupportedModel(
            f"{name}: K moved from one position to another differs from what the model computes "
            f"there by {least:.3f} of its size (tolerance {TOLERANCE:.3f}, with {best.source})"
        )
    return best


def _difference(left: torch.Tensor, right: torch.Tensor) -> float:
    return (left.float() - right.float()).abs().max().item()


def _turned(
    positions: tuple[int, ...], first: torch.Tensor, candidate: Candidate, layers: AttentionLayers
) -> torch.Tensor:
    """K [N, H, D] of the first position, moved to all positions, [P, N, H, D]."""
    count = len(first)
    table = RopeTable.uniform(
        candidate.frequencies, 1, is_neox=candidate.is_neox, offset=layers.rope_offset
    )
    item = first[:, None, None] if not layers.is_latent else first[:, None]
    if not layers.is_latent:
        item = torch.cat((item, torch.zeros_like(item)), dim=2)
    segments = [[0, count, p - positions[0], count * i] for i, p in enumerate(positions)]
    moved = rotate(item.contiguous(), torch.tensor(segments), table).k[0]
    return moved.view(len(positions), *first.shape)


def _candidates(model: torch.nn.Module) -> Iterator[Candidate]:
    """What the model's rotary modules say. A module of a class that is not known says nothing."""
    for name, module in model.named_modules():
        frequencies = compat.inverse_frequencies(module)
        if frequencies is not None:
            source = f"{name} ({type(module).__name__})"
            yield Candidate(source, frequencies.float().cpu(), bool(module.is_neox_style))
            continue
        for buffer, values in module.named_buffers(recurse=False):
            if not buffer.endswith("inv_freq") or "original" in buffer or _is_changing(module):
                continue
            for is_neox in (True, False):
                yield Candidate(f"{name}.{buffer}", values.detach().float().cpu(), is_neox)


def _is_changing(module: Any) -> bool:
    kinds = getattr(module, "rope_type", "default")
    kinds = kinds.values() if isinstance(kinds, dict) else [kinds]
    return any(word in str(kind) for kind in kinds for word in _CHANGING)
