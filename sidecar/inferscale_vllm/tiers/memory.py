"""The memory of the arenas, and the order of what is done to it: all that differs on CUDA.

Owns allocation and ordering: a byte is never overwritten before its last reader is through, and
never read before it has arrived.
"""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Protocol

import numpy as np
import torch

Fetches = Sequence[tuple[torch.Tensor, memoryview]]
Lifts = Sequence[tuple[torch.Tensor, torch.Tensor]]
"""(target, source), bytes of the same number."""


class Memory(Protocol):
    """What the arenas need of a device."""

    def host(self, size: int) -> torch.Tensor:
        """Host memory that the device can read, uint8 [size]."""

    def hbm(self, size: int) -> torch.Tensor:
        """The device's own memory, uint8 [size]."""

    def fetch(self, pairs: Fetches) -> None:
        """Copies into host memory, at once. Waits for who still reads what was there."""

    def lift(self, pairs: Lifts) -> None:
        """Copies from host memory to the device's, beside what the device computes."""

    def reading(self) -> AbstractContextManager[None]:
        """Around the launch of kernels that read the arenas: they see every copy made so far."""


class CpuMemory:
    """No device: all is host memory, and every copy is done when it returns. For tests."""

    def host(self, size: int) -> torch.Tensor:
        return torch.empty(size, dtype=torch.uint8)

    def hbm(self, size: int) -> torch.Tensor:
        return self.host(size)

    def fetch(self, pairs: Fetches) -> None:
        _copy(pairs)

    def lift(self, pairs: Lifts) -> None:
        for target, source in pairs:
            target.copy_(source)

    @contextmanager
    def reading(self) -> Iterator[None]:
        yield


class CudaMemory:
    """One GPU: pinned host memory, and a side stream for the copies.

    Two events order the streams: `_read`, the last kernel that reads an arena, and `_lifted`, the
    last copy from host memory. An event that was never recorded holds nobody up.

    Args:
        device: whose memory.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        cuda: Any = torch.cuda  # streams and events are not typed
        self._side = cuda.Stream(device)
        self._read, self._lifted = cuda.Event(), cuda.Event()

    def host(self, size: int) -> torch.Tensor:
        return torch.empty(size, dtype=torch.uint8, pin_memory=True)

    def hbm(self, size: int) -> torch.Tensor:
        memory = torch.empty(size, dtype=torch.uint8, device=self._device)
        self._read.record(
            torch.cuda.current_stream(self._device)
        )  # whoever had it before is through
        return memory

    def fetch(self, pairs: Fetches) -> None:
        self._read.synchronize()
        self._lifted.synchronize()
        _copy(pairs)

    def lift(self, pairs: Lifts) -> None:
        self._side.wait_event(self._read)
        with torch.cuda.stream(self._side):
            for target, source in pairs:
                target.copy_(source, non_blocking=True)
        self._lifted.record(self._side)

    @contextmanager
    def reading(self) -> Iterator[None]:
        compute = torch.cuda.current_stream(self._device)
        compute.wait_event(self._lifted)
        try:
            yield
        finally:
            self._read.record(compute)


def _copy(pairs: Fetches) -> None:
    for target, source in pairs:
        np.copyto(target.numpy(), np.frombuffer(source, np.uint8))


def memory_of(device: torch.device) -> Memory | None:
    """The memory of a device that profits from arenas; None if it does not."""
    return CudaMemory(device) if device.type == "cuda" else None
