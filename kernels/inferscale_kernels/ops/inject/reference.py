"""Inject in plain torch: gather segments, turn K, hand out per layer or scatter into paged caches.

Owns: the meaning of the op. Does not own: speed on GPUs (triton.py) or on CPUs (cpu.py).
Invariant: a segment with delta 0, a layer without RoPE, every V and every unrotated channel keep
their bits; everything else is turned in fp32 and rounded once.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from inferscale_kernels.caches import CacheTable
from inferscale_kernels.layout import k_plane, v_plane
from inferscale_kernels.ops.inject.contract import (
    Buffer,
    RotatedKV,
    check_items,
    empty_kv,
    empty_of,
    staged_shape,
)
from inferscale_kernels.ops.quantize.reference import ItemCodec
from inferscale_kernels.rope import RopeTable
from inferscale_kernels.segments import Run, check_segments, runs, target_tokens

_CHUNK_TOKENS = 128


def rotate(staging: Tensor, segments: Tensor, rope: RopeTable) -> RotatedKV:
    """Gather all segments and turn K, for all layers at once.

    Args:
        staging: [T_total, L, 2, H, D] (or MLA [T_total, L, 1, C]), model dtype, contiguous.
        segments: int64 [S, 4]: source row, tokens, delta in positions, target row.
        rope: rotary geometry of the L layers.

    Returns:
        K and V by target row. Rows that no segment covers are uninitialised.

    Raises:
        ValueError: shapes or bounds do not fit.
    """
    out = empty_kv(staging, target_tokens(segments))
    rotate_into(staging, segments, rope, out)
    return out


def rotate_into(
    staging: Tensor,
    segments: Tensor,
    rope: RopeTable,
    out: RotatedKV,
    codec: ItemCodec | None = None,
) -> None:
    """`rotate` into buffers [L, ≥T, H, D] of the caller; uncovered rows stay as they are.

    With a codec, `staging` is uint8 [T_total, token_bytes]: decoded in fp32, turned, rounded once
    to the dtype of `out`.
    """
    shape = staged_shape(staging, codec)
    rope.check(shape.layers, shape.head_dim)
    table = check_segments(segments, shape.tokens, out.k.shape[1])
    turns = rope.turns(table[:, 2]).to(staging.device)
    for run in runs(table):
        counts = table[run.first : run.last, 1].to(staging.device)
        per_token = turns[run.first : run.last].repeat_interleave(counts, dim=0)
        if codec is not None:
            _decode_and_turn(staging, run, per_token, rope, out, codec)
            continue
        _copy(staging, run, out)
        if run.shifted:
            _turn(out.k, run, per_token, rope)


def rotate_items_into(
    items: Sequence[Buffer],
    segments: Tensor,
    rope: RopeTable,
    out: RotatedKV,
    codec: ItemCodec | None = None,
) -> None:
    """`rotate_into` from items where they lie: segment s reads `items[s]`.

    Args:
        items: one buffer per segment, [tokens, L, 2, H, D] in the dtype of `out`, or with a codec
            uint8 [tokens, token_bytes].
        segments: as for `rotate`, but the source row counts from the start of the segment's item.
        rope, out, codec: as for `rotate_into`.

    Raises:
        ValueError: bounds do not fit, or an item is not a whole number of tokens.
    """
    shape, table, order = check_items(items, segments, out, codec)
    tail = (2, shape.heads, shape.head_dim) if shape.has_values else (1, shape.head_dim)
    for i, s in enumerate(order.tolist()):
        stored = torch.from_numpy(np.frombuffer(items[s], np.uint8).copy())
        if codec is None:
            stored = stored.view(out.k.dtype).view(-1, shape.layers, *tail)
        else:
            stored = stored.view(-1, codec.token_bytes)
        rotate_into(stored, table[i : i + 1], rope, out, codec)


def inject(
    staging: Tensor,
    segments: Tensor,
    slots: Tensor,
    rope: RopeTable,
    caches: CacheTable,
    codec: ItemCodec | None = None,
) -> None:
    """Gather, decode, turn, and scatter into the paged caches.

    Args:
        staging, segments, rope, codec: as for `rotate_into`.
        slots: int64 [T_out], or [G, T_out] for several KV groups; negative = do not write.
        caches: one strided view per layer. Compressed items for an fp8 cache go through bf16, as
            the engine's own K and V do.

    Raises:
        ValueError: shapes or bounds do not fit.
    """
    shape = staged_shape(staging, codec)
    if caches.num_layers != shape.layers or caches.views[0].shape[-1] != shape.cache_width:
        raise ValueError(
            f"items have {shape.layers} layers of {shape.cache_width} channels, the caches "
            f"{caches.num_layers} of {caches.views[0].shape[-1]}: they are of another model"
        )
    table = check_segments(segments, shape.tokens, slots.shape[-1])
    dtype = staging.dtype
    if codec is not None:
        dtype = torch.bfloat16 if caches.is_fp8 else caches.views[0].dtype
    out = empty_of(shape, slots.shape[-1], dtype, staging.device)
    rotate_into(staging, table, rope, out, codec)
    rows = _covered(table).to(staging.device)
    for layer in range(shape.layers):
        values = torch.cat((out.k[layer, rows], out.v[layer, rows]), dim=-1)
        caches.write(layer, caches.slots_of(slots, layer)[rows], values, shape.head_dim)


def _covered(table: Tensor) -> Tensor:
    """Target rows that some segment writes."""
    pieces = [torch.arange(t, t + n) for _, n, _, t in table.tolist()]
    return torch.cat(pieces) if pieces else torch.empty(0, dtype=torch.int64)


def _copy(staging: Tensor, run: Run, out: RotatedKV) -> None:
    source = staging[run.source : run.source + run.num_tokens]
    target = slice(run.target, run.target + run.num_tokens)
    out.k[:, target].copy_(k_plane(source).transpose(0, 1))
    out.v[:, target].copy_(v_plane(source).transpose(0, 1))


def _decode_and_turn(
    staging: Tensor, run: Run, turns: Tensor, rope: RopeTable, out: RotatedKV, codec: ItemCodec
) -> None:
    for start in range(0, run.num_tokens, _CHUNK_TOKENS):
        count = min(_CHUNK_TOKENS, run.num_tokens - start)
        first = run.source + start
        items = codec.decode(staging[first : first + count], torch.float32)
        keys = k_plane(items).transpose(0, 1).contiguous()
        here = run._replace(target=0, num_tokens=count)
        if run.shifted:
            _turn(keys, here, turns[start : start + count], rope)
        target = slice(run.target + start, run.target + start + count)
        out.k[:, target].copy_(keys)
        out.v[:, target].copy_(v_plane(items).transpose(0, 1))


def _turn(k: Tensor, run: Run, turns: Tensor, rope: RopeTable) -> None:
    """Turn K [L, T, H, D] of a run in place; `turns` is fp32 [tokens of the run, F, 2, R/2]."""
    for start in range(0, run.num_tokens, _CHUNK_TOKENS):
        chunk = turns[start : start + _CHUNK_TOKENS]
        tokens = slice(run.target + start, run.target + start + chunk.shape[0])
        for row, layers in rope.layers_by_row():
            whole = len(layers) == k.shape[0]
            for layer in [slice(None)] if whole else layers:
                cos, sin = chunk[:, None, row].unbind(2)  # [t, 1, R/2]
                _turn_pairs(*_pairs(k[layer, tokens], rope), cos, sin)


def _pairs(k: Tensor, rope: RopeTable) -> tuple[Tensor, Tensor]:
    """The two halves of every rotated pair, as views [..., R/2]."""
    rotated = k[..., rope.offset : rope.offset + rope.rotary_dim]
    if rope.is_neox:
        first, second = rotated.chunk(2, dim=-1)
        return first, second
    return rotated[..., 0::2], rotated[..., 1::2]


def _turn_pairs(first: Tensor, second: Tensor, cos: Tensor, sin: Tensor) -> None:
    # Products with an fp32 factor are fp32, so the only rounding is the final copy.
    turned_first = (first * cos).sub_(second * sin)
    turned_second = (second * cos).add_(first * sin)
    first.copy_(turned_first)
    second.copy_(turned_second)
