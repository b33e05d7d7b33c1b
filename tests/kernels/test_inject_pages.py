"""Packed pages hold what the reference makes, where the CPU backend's layout says, and nothing
else."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("numba")

from inferscale_kernels.ops.inject import empty_kv, reference
from inferscale_kernels.ops.inject.pages import Pages, inject_items_into
from inferscale_kernels.rope import NOPE, RopeTable

LAYERS = 3


def caches(blocks: int, heads: int, size: int, dim: int, dtype: torch.dtype) -> list[torch.Tensor]:
    shape = (blocks, heads, size, 2 * dim)
    return [torch.full(shape, float("nan"), dtype=dtype) for _ in range(LAYERS)]


def expected(
    cache: torch.Tensor, k: torch.Tensor, v: torch.Tensor, slots: torch.Tensor
) -> torch.Tensor:
    """One token at a time, as the layout is documented: K `[D, N]`, V `[N, D]` per block, head."""
    blocks, heads, size, width = cache.shape
    page = cache.clone().view(blocks, heads, 2, size * width // 2)
    keys = page[:, :, 0].view(blocks, heads, width // 2, size)
    values = page[:, :, 1].view(blocks, heads, size, width // 2)
    for row, slot in enumerate(slots.tolist()):
        if slot >= 0:
            keys[slot // size, :, :, slot % size] = k[row]
            values[slot // size, :, slot % size] = v[row]
    return page.view(cache.shape)


def run(
    *,
    seed: int,
    lengths: list[int],
    heads: int,
    dim: int,
    size: int,
    is_neox: bool,
    rotary: int,
    dtype: torch.dtype,
) -> None:
    generator = torch.Generator().manual_seed(seed)
    frequencies = 1e4 ** (-torch.arange(0, rotary, 2, dtype=torch.float32) / rotary)
    rope = RopeTable(torch.stack((frequencies, frequencies / 9)), (1, NOPE, 0), is_neox)
    items = [
        torch.randn(n + 2, LAYERS, 2, heads, dim, generator=generator).to(dtype) for n in lengths
    ]
    shifts = torch.randint(-300, 300, (len(lengths),), generator=generator)
    shifts[0] = 0
    starts = torch.tensor([0, *lengths[:-1]]).cumsum(0)
    rows = torch.stack((torch.ones_like(starts), torch.tensor(lengths), shifts, starts), dim=1)
    total = sum(lengths)
    blocks = total // size + 3
    order = torch.randperm(blocks - 1, generator=generator) + 1
    tokens = torch.arange(total) + int(torch.randint(0, size, (1,), generator=generator))
    slots = order[tokens // size] * size + tokens % size
    dropped = torch.where(torch.arange(total) < total // 2, -1, slots)
    both = torch.stack((slots, dropped))
    pages = Pages(caches(blocks, heads, size, dim, dtype), (0, 1, 0))
    wanted = [cache.clone() for cache in pages.caches]
    buffers = [item.view(torch.uint8).numpy().reshape(-1).data for item in items]
    inject_items_into(buffers, rows, both, rope, pages)
    out = empty_kv(items[0], total)
    reference.rotate_items_into(buffers, rows, rope, out)
    for layer, group in enumerate(pages.groups):
        page = expected(wanted[layer], out.k[layer], out.v[layer], both[group])
        assert torch.equal(pages.caches[layer].view(torch.int16), page.view(torch.int16)), layer


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 2**20),
    lengths=st.lists(st.integers(1, 90), min_size=1, max_size=6),
    is_neox=st.booleans(),
    size=st.sampled_from((16, 32, 128)),
)
def test_every_byte_is_what_the_reference_makes(
    seed: int, lengths: list[int], is_neox: bool, size: int
) -> None:
    run(
        seed=seed,
        lengths=lengths,
        heads=2,
        dim=64,
        size=size,
        is_neox=is_neox,
        rotary=64,
        dtype=torch.bfloat16,
    )


@pytest.mark.parametrize(
    ("heads", "dim", "rotary", "dtype"),
    [
        (1, 256, 256, torch.bfloat16),
        (3, 80, 32, torch.bfloat16),
        (5, 40, 40, torch.float16),
        (1, 24, 8, torch.float16),
    ],
)
def test_geometries(heads: int, dim: int, rotary: int, dtype: torch.dtype) -> None:
    run(
        seed=3,
        lengths=[20, 7, 70, 1],
        heads=heads,
        dim=dim,
        size=32,
        is_neox=True,
        rotary=rotary,
        dtype=dtype,
    )


def test_threads_write_the_same_bytes() -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        run(
            seed=4,
            lengths=[400, 333, 500],
            heads=4,
            dim=128,
            size=128,
            is_neox=True,
            rotary=128,
            dtype=torch.bfloat16,
        )
    finally:
        torch.set_num_threads(before)


def test_what_does_not_fit_is_refused_before_anything_is_written() -> None:
    [cache] = caches(2, 1, 16, 16, torch.bfloat16)[:1]
    pages = Pages([cache], [0])
    rope = RopeTable.uniform(torch.ones(8), 1)
    item = torch.zeros(4, 1, 2, 1, 16, dtype=torch.bfloat16).view(torch.uint8).numpy().data
    slots = torch.arange(16, 20)[None]
    with pytest.raises(ValueError, match="past the end"):
        inject_items_into([item], torch.tensor([[1, 4, 0, 0]]), slots, rope, pages)
    with pytest.raises(ValueError, match="follow each other"):
        inject_items_into([item], torch.tensor([[0, 4, 0, 1]]), slots, rope, pages)
    with pytest.raises(ValueError, match="slots are"):
        inject_items_into([item], torch.tensor([[0, 3, 0, 0]]), slots, rope, pages)
    with pytest.raises(ValueError, match="dense pages"):
        Pages([torch.zeros(2, 16, 2, 32, dtype=torch.bfloat16).transpose(1, 2)], [0])
    assert bool(cache.isnan().all())
