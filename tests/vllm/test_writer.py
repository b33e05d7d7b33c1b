"""The writer never holds up a step, loses nothing silently, and says what is on its way."""

import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from inferscale_vllm.bank import Bank, ItemHeader
from inferscale_vllm.capture import Captured
from inferscale_vllm.state import EngineState
from inferscale_vllm.writer import Writer, pending_keys, summed

from .bank_items import TENANTS, key, pages, small

ITEM_BYTES = 4 * 4096


def captured(number: int) -> Captured:
    kv = torch.zeros(4, 2048, dtype=torch.int16)
    return Captured(key(number), 0, np.arange(4, dtype=np.int32), kv, TENANTS[0])


class Device:
    """Rows that are on their way from a device until the gate opens."""

    def __init__(self, *, whole: bool) -> None:
        self.gate, self._whole = threading.Event(), whole

    def is_whole(self) -> bool:
        assert self.gate.wait(10)
        return self._whole


class Disk:
    """Packs items as long as the gate is open: stands for a disk that takes its time."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.gate.set()
        self.packed: list[str] = []

    def pack(self, item: Captured) -> tuple[ItemHeader, memoryview]:
        assert self.gate.wait(10)
        self.packed.append(item.key)
        return pages(len(self.packed), 4)


@pytest.fixture
def disk() -> Disk:
    return Disk()


@pytest.fixture
def bank(tmp_path: Path) -> Bank:
    return small(tmp_path)


@pytest.fixture
def state(tmp_path: Path) -> EngineState:
    return EngineState(tmp_path / "state")


@pytest.fixture
def writer(bank: Bank, state: EngineState, disk: Disk) -> Iterator[Writer]:
    writer = Writer(bank, state, disk.pack, queue_bytes=3 * ITEM_BYTES)
    yield writer
    disk.gate.set()
    writer.close()


def live(bank: Bank, *numbers: int) -> list[bool]:
    return [header is not None for header in bank.headers([key(n) for n in numbers])]


def test_rows_on_their_way_are_waited_for_in_the_thread(
    writer: Writer, bank: Bank, state: EngineState, disk: Disk
) -> None:
    whole, broken = Device(whole=True), Device(whole=False)
    items = [replace(captured(1), arrivals=[whole]), replace(captured(2), arrivals=[broken])]
    writer.submit(items)
    assert pending_keys([state], 1) == {key(1), key(2)} and disk.packed == []
    whole.gate.set()
    broken.gate.set()
    assert writer.flush()
    assert live(bank, 1, 2) == [True, False] and disk.packed == [key(1)]
    writer.submit([items[1]])
    assert writer.flush() and live(bank, 1, 2) == [True, False]
    assert summed([state], 1)["written"] == 1


def test_items_are_pending_until_the_bank_holds_them(
    writer: Writer, bank: Bank, state: EngineState, disk: Disk
) -> None:
    disk.gate.clear()
    writer.submit([captured(1), captured(2)])
    assert pending_keys([state], 1) == {key(1), key(2)} and live(bank, 1, 2) == [False, False]
    disk.gate.set()
    while pending_keys([state], 1):
        time.sleep(0.001)
    assert live(bank, 1, 2) == [True, True]
    assert summed([state], 1) == {"written": 2, "dropped": 0, "refused": 0, "pending": 0}


def test_a_full_queue_drops_at_once(
    writer: Writer, bank: Bank, state: EngineState, disk: Disk
) -> None:
    disk.gate.clear()
    started = time.monotonic()
    for number in range(5):
        writer.submit([captured(number)])
    assert time.monotonic() - started < 5, "nobody waits for the disk"
    assert pending_keys([state], 1) == {key(0), key(1), key(2)}
    disk.gate.set()
    assert writer.flush()
    assert live(bank, 0, 1, 2, 3, 4) == [True, True, True, False, False]
    assert summed([state], 1)["dropped"] == 2
    writer.submit([captured(4)])
    assert writer.flush() and live(bank, 4) == [True]


def test_a_bank_without_room_is_told(
    writer: Writer, bank: Bank, state: EngineState, disk: Disk
) -> None:
    for number in range(100, 145):
        bank.put({key(number): pages(number, 4)})
    kept = [key(n) for n in range(100, 145) if live(bank, n)[0]]
    bank.promises.make(b"holder", kept)
    room = bank.budget.capacity_bytes - bank.stats().used_bytes
    bank.put({key(99): pages(99, room // 4096 - 2)})
    bank.promises.make(b"other holder", [key(99)])
    writer.submit([captured(1), captured(2)])
    assert writer.flush()
    assert live(bank, 1, 2) == [False, False]
    assert summed([state], 1) == {"written": 0, "dropped": 0, "refused": 2, "pending": 0}


def test_closing_writes_what_waits(writer: Writer, bank: Bank, disk: Disk) -> None:
    disk.gate.clear()
    writer.submit([captured(1)])
    writer.submit([captured(2)])
    threading.Timer(0.05, disk.gate.set).start()
    writer.close()
    assert live(bank, 1, 2) == [True, True]
    writer.submit([captured(3)])
    writer.close()
    assert live(bank, 3) == [False]


def test_a_bug_costs_its_batch_only(bank: Bank, state: EngineState, caplog: Any) -> None:
    def pack(item: Captured) -> tuple[ItemHeader, memoryview]:
        if item.key == key(1):
            raise RuntimeError("a bug")
        return pages(1, 4)

    writer = Writer(bank, state, pack)
    writer.submit([captured(1)])
    assert writer.flush()
    writer.submit([captured(2)])
    writer.close()
    assert live(bank, 1, 2) == [False, True] and "a bug" in caplog.text


def test_what_a_dead_engine_left_pending_is_forgotten(bank: Bank, state: EngineState) -> None:
    state.note("writer:0", {"pending": [key(1)]})
    Writer(bank, state, lambda item: pages(1, 4))
    assert pending_keys([state], 1) == set()
