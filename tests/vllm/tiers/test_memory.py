"""What the arenas rely on, of every kind of memory: nothing is read, or overwritten, too early."""

import torch

from inferscale_vllm.tiers.memory import CudaMemory, Memory, memory_of

SIZE = 1 << 20


def _spin(memory: Memory) -> None:
    """Keeps the device busy for some 50 ms, so that what is not ordered comes out wrong."""
    if isinstance(memory, CudaMemory):
        torch.cuda._sleep(100_000_000)


def test_fetched_bytes_are_read(memory: Memory) -> None:
    host = memory.host(SIZE)
    memory.fetch([(host[:3], memoryview(b"abc")), (host[7:9], memoryview(b"xy"))])
    with memory.reading():
        assert bytes(host[:3].tolist()) == b"abc" and bytes(host[7:9].tolist()) == b"xy"


def test_a_reader_sees_what_was_lifted_before(memory: Memory) -> None:
    host, hbm = memory.host(SIZE), memory.hbm(SIZE)
    for value in (1, 2, 3):
        memory.fetch([(host, memoryview(bytes([value]) * SIZE))])
        memory.lift([(hbm[: SIZE // 2], host[: SIZE // 2]), (hbm[SIZE // 2 :], host[SIZE // 2 :])])
        with memory.reading():
            seen = hbm.clone()
        assert bool((seen == value).all())


def test_a_lift_waits_for_who_reads_what_was_there(memory: Memory) -> None:
    host, hbm = memory.host(2 * SIZE), memory.hbm(SIZE)
    memory.fetch([(host, memoryview(b"\1" * SIZE + b"\2" * SIZE))])
    memory.lift([(hbm, host[:SIZE])])
    with memory.reading():
        _spin(memory)
        seen = hbm.clone()
    memory.lift([(hbm, host[SIZE:])])
    assert bool((seen == 1).all())
    with memory.reading():
        assert bool((hbm == 2).all())


def test_a_fetch_waits_for_who_reads_what_was_there(memory: Memory) -> None:
    host, hbm = memory.host(SIZE), memory.hbm(SIZE)
    memory.fetch([(host, memoryview(b"\1" * SIZE))])
    with memory.reading():
        _spin(memory)
        seen = torch.empty_like(hbm)
        seen.copy_(host, non_blocking=True)
    memory.lift([(hbm, host)])
    memory.fetch([(host, memoryview(b"\2" * SIZE))])
    with memory.reading():
        assert bool((hbm == 1).all()) and bool((seen == 1).all())


def test_only_a_gpu_profits_from_arenas() -> None:
    assert memory_of(torch.device("cpu")) is None
