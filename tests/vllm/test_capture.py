"""Capture takes rows by cache slot, however the batch is ordered, and keeps only whole items."""

from collections.abc import Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from inferscale_vllm.capture import Capturer, rows_of
from inferscale_vllm.layers import AttentionLayers
from inferscale_vllm.metadata import Slice
from inferscale_vllm.tiers.memory import Lifts
from inferscale_vllm.tiers.staging import Staging

LAYERS, HEADS, SIZE = 3, 2, 4


class Impl:
    def __init__(self) -> None:
        self.written = 0

    def do_kv_cache_update(self, layer: Any, k: Any, v: Any, cache: Any, slots: Any) -> None:
        self.written += 1


@dataclass
class Late:
    """A device whose copies are made when somebody waits for them, and no earlier."""

    steps: int = 0

    def beside(self, wanted: torch.Tensor) -> torch.Tensor:
        return wanted

    def step(self, shape: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
        return torch.empty(tuple(shape), dtype=dtype)

    def item(self, shape: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
        return torch.full(tuple(shape), float("nan"), dtype=dtype)

    def lacks(self, matches: Sequence[torch.Tensor]) -> bool:
        return False

    def send(self, pairs: Lifts, matches: Sequence[torch.Tensor]) -> "Late.Coming":
        self.steps += 1
        return Late.Coming(list(pairs), list(matches))

    @dataclass
    class Coming:
        pairs: list[tuple[torch.Tensor, torch.Tensor]]
        matches: list[torch.Tensor]

        def is_whole(self) -> bool:
            for target, source in self.pairs:
                target.copy_(source)
            return all(map(bool, self.matches))


def make(staging: Staging | None = None) -> tuple[Capturer, list[Any]]:
    modules = [
        SimpleNamespace(impl=Impl(), num_kv_heads=HEADS, head_size=SIZE) for _ in range(LAYERS)
    ]
    layers = AttentionLayers([f"l{i}" for i in range(LAYERS)], modules, [0] * LAYERS)
    return Capturer(layers, staging), modules


def forward(modules: list[Any], slots: list[int]) -> tuple[torch.Tensor, torch.Tensor]:
    """A forward pass over tokens that land in `slots`; K of slot s in layer l is s + l/10."""
    mapping = torch.tensor(slots)
    base = mapping[:, None, None].expand(-1, HEADS, SIZE).float()
    for index, module in enumerate(modules):
        k, v = base + index / 10, -base
        module.impl.do_kv_cache_update(module, k, v, None, mapping)
    return base, -base


def piece(slots: list[int], *, offset: int = 0, total: int | None = None) -> Slice:
    total = total or len(slots)
    return Slice("r", "k", offset, total, 7, np.arange(total, dtype=np.int32), [np.array(slots)])


def test_rows_are_found_by_slot() -> None:
    mapping = torch.tensor([40, -1, 12, 13, 41, -1])
    rows, is_match = rows_of(mapping, torch.tensor([13, 40, 41]))
    assert is_match and rows.tolist() == [3, 0, 4]
    rows, is_match = rows_of(mapping, torch.tensor([13, 99]))
    assert not is_match and rows.tolist() == [3, 0], "a row of padding may lie beyond the values"


def test_an_item_is_captured_from_a_mixed_batch() -> None:
    capturer, modules = make()
    capturer.begin([piece([12, 13])])
    forward(modules, [40, 13, 12, 41])
    [item] = capturer.end()
    assert (item.key, item.position) == ("k", 7)
    assert item.kv.shape == (2, LAYERS, 2, HEADS, SIZE)
    assert torch.equal(item.kv[0, :, 0, 0, 0], torch.tensor([12.0, 12.1, 12.2]))
    assert bool((item.kv[1, :, 1] == -13).all())
    assert all(module.impl.__class__ is Impl and module.impl.written == 1 for module in modules)


def test_a_chunked_item_is_kept_when_whole() -> None:
    capturer, modules = make()
    capturer.begin([piece([5, 6], total=3)])
    forward(modules, [5, 6])
    assert capturer.end() == []
    capturer.begin([])
    forward(modules, [90])
    assert capturer.end() == []
    capturer.begin([piece([9], offset=2, total=3)])
    forward(modules, [9])
    [item] = capturer.end()
    assert item.kv[:, 0, 0, 0, 0].tolist() == [5.0, 6.0, 9.0]


def test_a_preempted_item_starts_again() -> None:
    capturer, modules = make()
    capturer.begin([piece([5, 6], total=3)])
    forward(modules, [5, 6])
    capturer.end()
    capturer.begin([piece([20, 21, 22])])
    forward(modules, [20, 21, 22])
    [item] = capturer.end()
    assert item.kv[:, 0, 0, 0, 0].tolist() == [20.0, 21.0, 22.0]


def test_an_item_whose_start_was_a_cache_hit_is_not_kept() -> None:
    capturer, modules = make()
    capturer.begin([piece([9], offset=2, total=3)])
    forward(modules, [9])
    assert capturer.end() == []


def test_a_step_that_did_not_run_keeps_nothing() -> None:
    capturer, _ = make()
    capturer.begin([piece([9])])
    assert capturer.end() == []


def test_requests_that_end_leave_nothing_behind() -> None:
    capturer, modules = make()
    capturer.begin([piece([5], total=2)])
    forward(modules, [5])
    capturer.end()
    capturer.forget({"r"})
    capturer.begin([piece([6], offset=1, total=2)])
    forward(modules, [6])
    assert capturer.end() == []


def test_slots_that_a_window_dropped_are_never_matched_with_padding() -> None:
    capturer, modules = make()
    capturer.begin([piece([-1, 4])])
    forward(modules, [-1, 4])
    assert capturer.end() == []


def test_a_step_that_lacks_a_slot_keeps_nothing() -> None:
    capturer, modules = make()
    capturer.begin([piece([4, 5])])
    forward(modules, [5, 6])
    assert capturer.end() == []


def test_rows_of_a_device_are_sent_once_a_step_and_there_once_waited_for() -> None:
    staging = Late()
    capturer, modules = make(staging)
    capturer.begin([piece([5, 6], total=3)])
    forward(modules, [6, 5])
    assert capturer.end() == []
    capturer.begin([piece([9], offset=2, total=3)])
    forward(modules, [9])
    [item] = capturer.end()
    assert bool(item.kv.isnan().all()), "a step has waited for the device"
    assert item.is_whole()
    assert item.kv[:, 2, 0, 0, 0].tolist() == pytest.approx([5.2, 6.2, 9.2])
    assert staging.steps == 2


def test_a_row_that_a_device_did_not_compute_is_found_out_when_waited_for() -> None:
    capturer, modules = make(Late())
    for slots in ([5], [6, 7]):
        at = 0 if slots == [5] else 1
        capturer.begin([piece(slots, offset=at, total=3)])
        forward(modules, slots[:1])
        done = capturer.end()
    assert [item.is_whole() for item in done] == [False]


def test_latents_are_captured_with_their_rope_part_behind_them() -> None:
    written = []
    impl = SimpleNamespace(do_kv_cache_update=lambda *args: written.append(args))
    module = SimpleNamespace(impl=impl, num_kv_heads=1, head_size=6, kv_lora_rank=4)
    capturer = Capturer(AttentionLayers(["l0"], [module], [0]))
    capturer.begin([piece([8, 9])])
    latent, rope = torch.randn(3, 4), torch.randn(3, 1, 2)
    impl.do_kv_cache_update(latent, rope, None, torch.tensor([9, 7, 8]), "auto", None)
    [item] = capturer.end()
    assert item.kv.shape == (2, 1, 1, 1, 6)
    assert torch.equal(item.kv[:, 0, 0, 0], torch.cat((latent, rope[:, 0]), dim=1)[[2, 0]])
    assert len(written) == 1
