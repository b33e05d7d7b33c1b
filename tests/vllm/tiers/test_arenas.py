"""The worker injects the same bits out of the arenas as out of the bank, or has no arenas."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from inferscale_kernels.ops.inject import rotate
from inferscale_vllm.bank import Bank, tenant_of
from inferscale_vllm.capture import Captured
from inferscale_vllm.metadata import Copy, Load, StepMetadata
from inferscale_vllm.plan import Segment
from inferscale_vllm.state import EngineState
from inferscale_vllm.tiers.memory import Memory
from inferscale_vllm.tiers.policy import note_name, tiers_of
from inferscale_vllm.tiers.slabs import SLAB_TOKENS
from inferscale_vllm.tiers.start import cache_table
from inferscale_vllm.worker import Worker

from .plain_model import DTYPE, FORM, ROPE, TOKEN_SHAPE, layers, read

SLAB_BYTES = SLAB_TOKENS * FORM.row_bytes()
TOKENS, TAKEN, SHIFT = 20, 12, 7
SLABS = 3


def key(number: int) -> str:
    return f"{number:064x}"


@pytest.fixture
def bank(tmp_path: Path) -> Bank:
    return Bank(tmp_path / "rank0", limit_bytes=2**26)


@pytest.fixture
def state(tmp_path: Path) -> EngineState:
    return EngineState(tmp_path / "state")


def make(bank: Bank, state: EngineState, found: Any, store_dtype: str = "bf16") -> Worker:
    worker = Worker(
        layers=found,
        rope=ROPE,
        bank=bank,
        state=state,
        dtype=DTYPE,
        verify_writes=True,
        store_dtype=store_dtype,
    )
    for number in range(4):
        worker.writer.submit([captured(number)])
    assert worker.writer.flush()
    return worker


def captured(number: int, tokens: int = TOKENS) -> Captured:
    generator = torch.Generator().manual_seed(number)
    kv = torch.randn(tokens, *TOKEN_SHAPE, generator=generator).to(DTYPE)
    return Captured(key(number), 50, np.arange(tokens, dtype=np.int32), kv, tenant_of("ann"))


def load(*numbers: int, at: int = 100) -> Load:
    pieces = [Segment(key(n), 4, TAKEN, 0, SHIFT) for n in numbers]
    slots = np.arange(at, at + TAKEN * len(numbers), dtype=np.int64)
    return Load(f"load {at}", pieces, [slots], [at])


def copies(*numbers: int, hbm: bool) -> list[Copy]:
    slabs = [tuple(range(SLABS * n, SLABS * n + SLABS)) for n in numbers]
    return [Copy(key(n), s, s if hbm else ()) for n, s in zip(numbers, slabs, strict=True)]


def run(worker: Worker, **work: Any) -> None:
    worker.bind(StepMetadata(**work))
    worker.load()
    worker.store()
    worker.fetch()


def expected(*numbers: int) -> torch.Tensor:
    """[T, L, 2, H, D]: the tokens taken of these items, turned by the reference."""
    parts = []
    for number in numbers:
        out = rotate(captured(number).kv, torch.tensor([[4, TAKEN, SHIFT, 0]]), ROPE)
        parts.append(torch.stack((out.k, out.v), dim=2).transpose(0, 1))
    return torch.cat(parts)


@pytest.mark.parametrize("hbm", [False, True])
def test_items_come_out_of_the_arenas(
    bank: Bank, state: EngineState, device: torch.device, memory: Memory, hbm: bool
) -> None:
    found = layers(device)
    worker = make(bank, state, found)
    worker.use_arenas(12 * SLAB_BYTES, 12 * SLAB_BYTES * hbm, memory)
    run(worker, fetches=copies(0, 1, hbm=hbm))
    bank.retire([key(0), key(1)])
    run(worker, loads=[load(1, 0), load(0, at=200)])
    assert worker.take_failed_block_ids() == set()
    assert torch.equal(read(found, range(100, 100 + 2 * TAKEN)), expected(1, 0))
    assert torch.equal(read(found, range(200, 200 + TAKEN)), expected(0))
    assert state.get_note("verify:load 100") == 0.0
    worker.writer.close()


def test_what_is_lifted_in_a_step_serves_it(
    bank: Bank, state: EngineState, device: torch.device, memory: Memory
) -> None:
    found = layers(device)
    worker = make(bank, state, found)
    worker.use_arenas(12 * SLAB_BYTES, 12 * SLAB_BYTES, memory)
    run(worker, fetches=copies(2, hbm=False))
    run(worker, lifts=copies(2, hbm=True), loads=[load(2)])
    assert torch.equal(read(found, range(100, 100 + TAKEN)), expected(2))
    worker.writer.close()


def test_requests_whose_items_lie_in_no_arena_are_served_from_the_bank(
    bank: Bank, state: EngineState, device: torch.device, memory: Memory
) -> None:
    found = layers(device)
    worker = make(bank, state, found)
    worker.use_arenas(12 * SLAB_BYTES, 0, memory)
    run(worker, fetches=copies(0, hbm=False))
    run(worker, loads=[load(0), load(0, 3, at=150), load(9, at=200)])
    assert worker.take_failed_block_ids() == {200}, "only what nobody has fails"
    assert torch.equal(read(found, range(100, 100 + TAKEN)), expected(0))
    assert torch.equal(read(found, range(150, 150 + 2 * TAKEN)), expected(0, 3))
    worker.writer.close()


def test_compressed_items_are_decoded_out_of_the_arenas(
    bank: Bank, state: EngineState, device: torch.device, memory: Memory
) -> None:
    found = layers(device)
    worker = make(bank, state, found, "int8")
    worker.writer.submit([captured(5, tokens=1100)])  # calibrates
    worker.writer.submit([captured(6)])
    assert worker.writer.flush()
    with bank.reading() as reader:
        assert [reader.codec(key(n)) for n in (1, 6)] == ["plain", "int8"]
    worker.use_arenas(30 * SLAB_BYTES, 30 * SLAB_BYTES, memory)
    run(worker, fetches=copies(1, 6, hbm=True))
    run(worker, loads=[load(6, 1)])
    assert torch.equal(read(found, range(100 + TAKEN, 100 + 2 * TAKEN)), expected(1))
    assert state.get_note("verify:load 100") == 0.0  # against the CPU's own decoding
    worker.writer.close()


def test_slabs_that_were_given_to_another_are_not_read(
    bank: Bank, state: EngineState, device: torch.device, memory: Memory
) -> None:
    found = layers(device)
    worker = make(bank, state, found)
    worker.use_arenas(SLABS * SLAB_BYTES, 0, memory)
    slabs = tuple(range(SLABS))
    run(worker, fetches=[Copy(key(0), slabs, ())])
    run(worker, fetches=[Copy(key(1), slabs[::-1], ())])
    run(worker, loads=[load(0), load(1, at=150)])
    assert torch.equal(read(found, range(100, 100 + TAKEN)), expected(0)), "from the bank"
    assert torch.equal(read(found, range(150, 150 + TAKEN)), expected(1))
    worker.writer.close()


def test_the_scheduler_learns_what_there_is(
    bank: Bank, state: EngineState, device: torch.device, memory: Memory
) -> None:
    assert tiers_of(state, 1, 0) is None, "nothing was opened yet"
    found = layers(device)
    worker = make(bank, state, found, "int8")
    worker.use_arenas(12 * SLAB_BYTES + 5, 4 * SLAB_BYTES, memory)
    assert not any(bool(module.kv_cache.any()) for module in found.modules), "scratch is cleared"
    tiers = tiers_of(state, 1, 0)
    assert tiers and (tiers.host.num_slabs, tiers.hbm.num_slabs) == (12, 4)
    assert tiers_of(state, 2, 0) is None, "another rank has none"
    worker.use_arenas(0, 4 * SLAB_BYTES, memory)
    assert tiers_of(state, 1, 0) is None and state.get_note("tiers") is None
    worker.writer.close()


@pytest.mark.parametrize("case", ["another layout", "packed", "too small"])
def test_no_arenas_rather_than_wrong_ones(
    bank: Bank, state: EngineState, device: torch.device, memory: Memory, case: str
) -> None:
    fields = {"isa": "vec"} if case == "packed" else {}
    found = layers(device, broken=case == "another layout", **fields)
    assert (cache_table(found, DTYPE) is None) == (case == "packed")
    worker = make(bank, state, found)
    worker.use_arenas(SLAB_BYTES * (2 if case == "too small" else 12), 0, memory)
    assert state.get_note(note_name(0)) is None
    assert not any(bool(module.kv_cache.any()) for module in found.modules), "scratch is cleared"
    if case == "too small":
        run(worker, fetches=copies(0, hbm=False))
        run(worker, loads=[load(0)])
        assert torch.equal(read(found, range(100, 100 + TAKEN)), expected(0))
    worker.writer.close()


def test_the_cpu_has_no_arenas(bank: Bank, state: EngineState) -> None:
    worker = make(bank, state, layers(torch.device("cpu")))
    worker.use_arenas(12 * SLAB_BYTES, 12 * SLAB_BYTES)
    assert state.get_note(note_name(0)) is None
    worker.writer.close()
