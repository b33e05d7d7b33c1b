"""The worker keeps promises from items of every format at once, and fails only whom it must."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from inferscale_kernels.ops.inject import RotatedKV
from inferscale_kernels.ops.inject import reference as inject_reference
from inferscale_kernels.rope import RopeTable
from inferscale_vllm.bank import Bank
from inferscale_vllm.capture import Captured
from inferscale_vllm.layers import AttentionLayers
from inferscale_vllm.metadata import Load, StepMetadata
from inferscale_vllm.plan import Segment
from inferscale_vllm.state import EngineState
from inferscale_vllm.worker import Worker

from .bank_items import TENANTS, key

LAYERS, HEADS, SIZE, TOKENS = 3, 2, 64, 32
ROPE = RopeTable.uniform(1e4 ** (-torch.arange(0, SIZE, 2, dtype=torch.float32) / SIZE), LAYERS)


class Impl:
    """A cache that remembers what is written to which slot."""

    def __init__(self) -> None:
        self.written: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}

    def do_kv_cache_update(self, layer: Any, k: Any, v: Any, cache: Any, slots: Any) -> None:
        for at, slot in enumerate(slots.tolist()):
            self.written[slot] = (k[at].clone(), v[at].clone())


@pytest.fixture
def bank(tmp_path: Path) -> Bank:
    return Bank(tmp_path / "rank0", limit_bytes=2**26)


def make(bank: Bank, tmp_path: Path, store_dtype: str) -> tuple[Worker, list[Impl]]:
    impls = [Impl() for _ in range(LAYERS)]
    modules = [
        SimpleNamespace(
            impl=impl,
            num_kv_heads=HEADS,
            head_size=SIZE,
            kv_cache=torch.zeros(1, dtype=torch.bfloat16),
        )
        for impl in impls
    ]
    names = [f"l{n}" for n in range(LAYERS)]
    layers = AttentionLayers(names, modules, [0] * LAYERS)
    worker = Worker(
        layers=layers,
        rope=ROPE,
        bank=bank,
        state=EngineState(tmp_path / f"state {store_dtype}"),
        dtype=torch.bfloat16,
        verify_writes=False,
        store_dtype=store_dtype,
    )
    return worker, impls


def captured(number: int) -> Captured:
    generator = torch.Generator().manual_seed(number)
    kv = torch.randn(TOKENS, LAYERS, 2, HEADS, SIZE, generator=generator).to(torch.bfloat16)
    return Captured(key(number), 50, np.arange(TOKENS, dtype=np.int32), kv, TENANTS[0])


def load(name: str, numbers: list[int], first_slot: int, shift: int) -> Load:
    pieces = [Segment(key(n), 4, 20, 0, shift) for n in numbers]
    slots = np.arange(first_slot, first_slot + 20 * len(numbers), dtype=np.int64)
    return Load(name, pieces, [slots], [first_slot])


def expected(bank: Bank, worker: Worker, number: int, shift: int) -> RotatedKV:
    """K and V of the 20 tokens by the reference."""
    out = RotatedKV(*(torch.zeros(LAYERS, 20, HEADS, SIZE, dtype=torch.bfloat16) for _ in "kv"))
    with bank.reading() as reader:
        kv, codec = reader.kv(key(number)), worker.storage.codec(reader.codec(key(number)))
        assert kv is not None
        table = torch.tensor([[4, 20, shift, 0]])
        inject_reference.rotate_items_into([kv], table, ROPE, out, codec)
    return out


@pytest.mark.parametrize("store_dtype", ["bf16", "int8", "k8v4"])
def test_every_slot_gets_its_item(bank: Bank, tmp_path: Path, store_dtype: str) -> None:
    worker, impls = make(bank, tmp_path, store_dtype)
    for number in range(36):  # 32 of them calibrate, so both kinds are in the bank
        worker.writer.submit([captured(number)])
        assert worker.writer.flush()
    with bank.reading() as reader:
        kinds = {reader.codec(key(n)) for n in range(36)}
    assert kinds == ({"plain"} if store_dtype == "bf16" else {"plain", store_dtype})
    order = [35, 0, 34, 1]
    worker.bind(StepMetadata(loads=[load("a", order, 100, 7), load("b", [33], 500, 0)]))
    worker.load()
    assert worker.take_failed_block_ids() == set()
    assert all(len(impl.written) == 100 for impl in impls)
    places = [(n, 100 + 20 * at, 7) for at, n in enumerate(order)] + [(33, 500, 0)]
    for number, slot, shift in places:
        wanted = expected(bank, worker, number, shift)
        for layer, impl in enumerate(impls):
            k, v = (torch.stack([impl.written[slot + t][i] for t in range(20)]) for i in (0, 1))
            assert torch.equal(k, wanted.k[layer]) and torch.equal(v, wanted.v[layer])
    worker.writer.close()


def test_a_broken_promise_fails_its_request_only(bank: Bank, tmp_path: Path) -> None:
    worker, impls = make(bank, tmp_path, "bf16")
    worker.writer.submit([captured(1)])
    assert worker.writer.flush()
    worker.bind(StepMetadata(loads=[load("lost", [1, 2], 100, 0), load("kept", [1], 300, 0)]))
    worker.load()
    assert worker.take_failed_block_ids() == {100}
    assert set(impls[0].written) == set(range(300, 320))
    worker.writer.close()
