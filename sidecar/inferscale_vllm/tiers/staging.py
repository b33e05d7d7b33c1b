"""How captured rows get from where they are computed to host memory: all that differs on CUDA.

Owns allocation and ordering: a row is read by the host only after it has arrived, and its source
is not used again before it has left. No call but `Arrival.is_whole` waits for the device.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch

from inferscale_vllm.tiers.memory import Lifts


class Arrival(Protocol):
    """Rows of one step on their way to the host."""

    def is_whole(self) -> bool:
        """Waits until they are there. Whether the step had all the rows that were wanted."""


class Staging(Protocol):
    """What capture needs of a device."""

    def beside(self, wanted: torch.Tensor) -> torch.Tensor:
        """Wanted slots (int64, on the host) where the step's slot mapping is."""

    def step(self, shape: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
        """Memory for the rows of one step, where they are computed."""

    def item(self, shape: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
        """Memory for a whole item, on the host."""

    def lacks(self, matches: Sequence[torch.Tensor]) -> bool:
        """Whether it is known by now that rows are missing; matches are bool [], one per group."""

    def send(self, pairs: Lifts, matches: Sequence[torch.Tensor]) -> Arrival:
        """Copies rows of the step into items: (target, source), of equal shape and dtype."""


@dataclass(frozen=True)
class Arrived:
    """Rows that are there."""

    def is_whole(self) -> bool:
        return True


class CpuStaging:
    """Rows are computed in host memory, and every copy is done when it returns."""

    def beside(self, wanted: torch.Tensor) -> torch.Tensor:
        return wanted

    def step(self, shape: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
        return torch.empty(tuple(shape), dtype=dtype)

    def item(self, shape: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
        return torch.empty(tuple(shape), dtype=dtype)

    def lacks(self, matches: Sequence[torch.Tensor]) -> bool:
        return not all(bool(match) for match in matches)

    def send(self, pairs: Lifts, matches: Sequence[torch.Tensor]) -> Arrival:
        for target, source in pairs:
            target.copy_(source)
        return Arrived()


class CudaStaging:
    """One GPU: rows are gathered in its memory, and leave on a side stream into pinned memory.

    PyTorch keeps freed pinned memory for the next item, and neither it nor a step's memory is
    given out again while a copy on the side stream uses it.

    Args:
        device: that computes.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        cuda: Any = torch.cuda  # streams and events are not typed
        self._side, self._event = cuda.Stream(device), cuda.Event

    def beside(self, wanted: torch.Tensor) -> torch.Tensor:
        return wanted.pin_memory().to(self._device, non_blocking=True)

    def step(self, shape: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
        return torch.empty(tuple(shape), dtype=dtype, device=self._device)

    def item(self, shape: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
        return torch.empty(tuple(shape), dtype=dtype, pin_memory=True)

    def lacks(self, matches: Sequence[torch.Tensor]) -> bool:
        return False  # to know it now would be to wait

    def send(self, pairs: Lifts, matches: Sequence[torch.Tensor]) -> Arrival:
        flags = torch.stack(list(matches))
        found = torch.empty(flags.shape, dtype=torch.bool, pin_memory=True)
        self._side.wait_stream(torch.cuda.current_stream(self._device))
        with torch.cuda.stream(self._side):
            for target, source in (*pairs, (found, flags)):
                target.copy_(source, non_blocking=True)
                source.record_stream(self._side)
        done = self._event()
        done.record(self._side)
        return _OnItsWay(done, found)


@dataclass(frozen=True)
class _OnItsWay:
    done: Any
    found: torch.Tensor

    def is_whole(self) -> bool:
        self.done.synchronize()
        return bool(self.found.all())


def staging_of(device: torch.device) -> Staging:
    """That of a device."""
    return CudaStaging(device) if device.type == "cuda" else CpuStaging()
