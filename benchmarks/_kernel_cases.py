"""What `benchmarks.kernels` times: the ops on random items, each with a copy beside it.

Every op is compared with its reference before it is handed out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from inferscale_kernels.caches import CacheTable
from inferscale_kernels.ops import inject as inject_op
from inferscale_kernels.ops.extract import reference as extract_reference
from inferscale_kernels.ops.inject import reference
from inferscale_kernels.ops.quantize import FormatName, ItemCodec, calibrate
from inferscale_kernels.rope import RopeTable
from inferscale_kernels.segments import segment_table

ITEM_TOKENS = 20
BLOCK_TOKENS = 128
FORMATS: tuple[FormatName, ...] = ("int8", "k8v4")


class Model(NamedTuple):
    """KV shape of a model."""

    name: str
    layers: int
    heads: int
    head_dim: int
    base: float

    def rope(self) -> RopeTable:
        exponent = torch.arange(0, self.head_dim, 2, dtype=torch.float32) / self.head_dim
        return RopeTable.uniform(1.0 / self.base**exponent, self.layers)


SMOLLM2 = Model("SmolLM2-135M", 30, 3, 64, 1e5)
LLAMA = Model("Llama-3.1-8B", 32, 8, 128, 5e5)


class Measured(NamedTuple):
    """One op, as a call to time and a copy to time beside it."""

    op: str
    moved_bytes: int
    call: Callable[[], object]
    copy: Callable[[], object]


def _staged(model: Model, tokens: int) -> tuple[Tensor, Tensor]:
    """Random items of 20 tokens, and a table that moves each by another distance."""
    generator = torch.Generator().manual_seed(tokens)
    shape = (tokens, model.layers, 2, model.heads, model.head_dim)
    items = torch.randn(shape, generator=generator).to(torch.bfloat16)
    starts = range(0, tokens, ITEM_TOKENS)
    return items, segment_table([(i, ITEM_TOKENS, 3 * i - tokens, i) for i in starts])


def on_cpu(model: Model, tokens: int) -> Iterator[Measured]:
    items, moved = _staged(model, tokens)
    rope, out, truth = model.rope(), *(inject_op.empty_kv(items, tokens) for _ in range(2))
    target = torch.empty_like(items)
    unmoved = moved.clone()
    unmoved[:, 2] = 0
    in_place = moved.clone()
    in_place[:, 0] = 0
    blob = memoryview(items.view(torch.uint8).numpy().tobytes())
    size = len(blob) // len(moved)
    pieces = [blob[i * size : (i + 1) * size] for i in range(len(moved))]
    calls: dict[str, Callable[[], object]] = {
        "rotate": lambda: inject_op.rotate_into(items, moved, rope, out),
        "rotate, in place of gather": lambda: inject_op.rotate_items_into(
            pieces, in_place, rope, out
        ),
        "rotate, reference": lambda: reference.rotate_into(items, moved, rope, out),
        "rotate, nothing moved": lambda: inject_op.rotate_into(items, unmoved, rope, out),
    }
    reference.rotate_into(items, moved, rope, truth)
    for op, call in calls.items():
        call()
        if op != "rotate, nothing moved" and not torch.equal(out.k, truth.k):
            raise SystemExit(f"{op} differs from its reference: not timed")
        yield Measured(op, 2 * items.nbytes, call, lambda: target.copy_(items))
    yield _into_pages(model, pieces, in_place, rope, truth.k, items.nbytes)
    for name in FORMATS:
        codec = ItemCodec(calibrate(items[:500], rope), name)
        codes = codec.encode(items)
        reference.rotate_into(codes, moved, rope, truth, codec)

        def compressed(codec: ItemCodec = codec, codes: Tensor = codes) -> None:
            inject_op.rotate_into(codes, moved, rope, out, codec)

        compressed()
        if not torch.equal(out.k, truth.k):
            raise SystemExit(f"rotate, {name} differs from its reference: not timed")
        yield Measured(
            f"rotate, {name}", codes.nbytes + items.nbytes, compressed, lambda: target.copy_(items)
        )


def _into_pages(
    model: Model,
    pieces: list[memoryview],
    segments: Tensor,
    rope: RopeTable,
    truth: Tensor,
    item_bytes: int,
) -> Measured:
    """Straight into packed pages, every block in another place."""
    from inferscale_kernels.ops.inject.pages import Pages, inject_items_into

    tokens = truth.shape[1]
    blocks = -(-tokens // BLOCK_TOKENS)
    shape = (blocks + 1, model.heads, BLOCK_TOKENS, 2 * model.head_dim)
    caches = [torch.zeros(shape, dtype=torch.bfloat16) for _ in range(model.layers)]
    pages, row = Pages(caches, [0] * model.layers), torch.arange(tokens)
    order = 1 + torch.randperm(blocks, generator=torch.Generator().manual_seed(0))
    slots = order[row // BLOCK_TOKENS] * BLOCK_TOKENS + row % BLOCK_TOKENS

    def call() -> None:
        inject_items_into(pieces, segments, slots[None], rope, pages)

    call()
    halves = caches[-1].view(blocks + 1, model.heads, 2, -1)[:, :, 0]
    keys = halves.view(blocks + 1, model.heads, model.head_dim, BLOCK_TOKENS)
    if not torch.equal(keys[slots // BLOCK_TOKENS, :, :, slots % BLOCK_TOKENS], truth[-1]):
        raise SystemExit("inject, packed pages differs from its reference: not timed")
    source, target = (torch.ones(item_bytes, dtype=torch.uint8) for _ in range(2))
    return Measured("inject, packed pages", 2 * item_bytes, call, lambda: target.copy_(source))


def on_gpu(model: Model, tokens: int) -> Iterator[Measured]:
    from inferscale_kernels.ops.extract import triton as extract_triton
    from inferscale_kernels.ops.inject import triton as inject_triton
    from inferscale_kernels.ops.inject.triton_codes import inject_codes

    host, moved = _staged(model, tokens)
    items, rope = host.cuda(), model.rope()
    got, want = (_caches(model, tokens) for _ in range(2))
    slots = torch.randperm(tokens + 64, generator=torch.Generator().manual_seed(1))[:tokens].cuda()
    reference.inject(items, moved, slots, rope, want)
    out, source = torch.empty_like(items), torch.empty_like(items)

    def plain() -> None:
        inject_triton.inject(items, moved, slots, rope, got)

    def back() -> None:
        extract_triton.extract(want, slots, out)

    plain()
    back()
    if not all(torch.equal(a, b) for a, b in zip(got.views, want.views, strict=True)):
        raise SystemExit("inject differs from its reference: not timed")
    if not torch.equal(out, extract_reference.extract(want, slots, source)):
        raise SystemExit("extract differs from its reference: not timed")
    yield Measured("inject", 2 * items.nbytes, plain, lambda: source.copy_(items))
    yield Measured("extract", 2 * items.nbytes, back, lambda: source.copy_(items))
    for name in FORMATS:
        codec = ItemCodec(calibrate(host[:500], rope).cuda(), name)
        codes = codec.encode(items)
        moved_bytes = codes.nbytes + items.nbytes
        from_, to = torch.empty(2, moved_bytes // 2, dtype=torch.uint8, device="cuda")

        def compressed(codec: ItemCodec = codec, codes: Tensor = codes) -> None:
            inject_codes(codes, moved, slots, rope, got, codec)

        def copied(to: Tensor = to, from_: Tensor = from_) -> None:
            to.copy_(from_)

        yield Measured(f"inject, {name}", moved_bytes, compressed, copied)


def _caches(model: Model, tokens: int) -> CacheTable:
    shape = (model.layers, -(-(tokens + 64) // 16), 16, model.heads, 2 * model.head_dim)
    pages = torch.zeros(shape, dtype=torch.bfloat16, device="cuda").permute(0, 1, 3, 2, 4)
    return CacheTable.of(list(pages))
