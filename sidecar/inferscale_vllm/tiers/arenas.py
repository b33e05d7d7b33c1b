"""The worker's half of the tiers: carries out the scheduler's copies, injects out of the arenas.

Owns the arenas' bytes, and the list of what really lies in them. Invariant: an item is listed from
the moment its copy is made until the first of its slabs is given to another; only what is listed
is read.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import torch

from inferscale_kernels.caches import CacheTable
from inferscale_kernels.ops.inject import inject
from inferscale_kernels.ops.quantize import ItemCodec
from inferscale_kernels.rope import RopeTable
from inferscale_kernels.segments import segment_table
from inferscale_vllm.metadata import Copy, Load
from inferscale_vllm.tiers.memory import Memory
from inferscale_vllm.tiers.slabs import Placed


class Source(Protocol):
    """Where items come from: `bank.BankReader`."""

    def kv(self, key: str) -> memoryview | None: ...

    def codec(self, key: str) -> str: ...


@dataclass(frozen=True)
class Format:
    """How the items of this rank's model are stored.

    Attributes:
        token_shape: [L, 2, H, D] of one token; of MLA [L, 1, 1, C].
        dtype: of those that are not compressed.
        codec: what reads a compressed one, by name.
    """

    token_shape: tuple[int, int, int, int]
    dtype: torch.dtype
    codec: Callable[[str], ItemCodec | None]

    def row_bytes(self, codec: ItemCodec | None = None) -> int:
        """Bytes of one stored token."""
        plain = int(np.prod(self.token_shape)) * self.dtype.itemsize
        return plain if codec is None else codec.token_bytes

    def rows(self, arena: torch.Tensor, codec: ItemCodec | None) -> torch.Tensor:
        """An arena (uint8 [N]) as one staging buffer of the kernels."""
        row_bytes = self.row_bytes(codec)
        rows = arena[: len(arena) // row_bytes * row_bytes]
        if codec is not None:
            return rows.view(-1, row_bytes)
        layers, planes, heads, size = self.token_shape
        tail = (2, heads, size) if planes == 2 else (1, size)
        return rows.view(self.dtype).view(-1, layers, *tail)


class _Arena:
    """One arena: its bytes, and which item lies where."""

    def __init__(self, memory: torch.Tensor) -> None:
        self.bytes = memory
        self._items: dict[str, tuple[Placed, str]] = {}
        self._owners: dict[int, str] = {}

    def find(self, key: str) -> tuple[Placed, str] | None:
        """Where an item lies, and its format; None if it does not."""
        return self._items.get(key)

    def clear(self, slabs: Sequence[int]) -> None:
        """What lies in these slabs is about to be overwritten."""
        for slab in slabs:
            self._forget(self._owners.get(slab))

    def _forget(self, key: str | None) -> None:
        if key is not None and key in self._items:
            for slab in self._items.pop(key)[0].slabs:
                del self._owners[slab]

    def put(self, key: str, placed: Placed, name: str) -> None:
        """An item lies here now."""
        self._forget(key)
        self._items[key] = (placed, name)
        self._owners |= dict.fromkeys(placed.slabs, key)

    def views(self, placed: Placed) -> list[torch.Tensor]:
        """The bytes of an item, slab by slab."""
        size = placed.row_bytes
        pieces = placed.pieces(0, placed.num_rows)
        return [self.bytes[row * size : (row + rows) * size] for row, rows in pieces]


class Arenas:
    """One rank's arenas.

    Args:
        memory: of this rank's device.
        host_slabs, hbm_slabs: how many each arena has.
        slab_bytes: of one slab.
        form: how items are stored.
        rope: rotary geometry of the layers.
        caches: the engine's cache, of all layers.
    """

    def __init__(
        self,
        memory: Memory,
        *,
        host_slabs: int,
        hbm_slabs: int,
        slab_bytes: int,
        form: Format,
        rope: RopeTable,
        caches: CacheTable,
    ) -> None:
        self._memory, self._form, self._rope, self._caches = memory, form, rope, caches
        self._slab_bytes = slab_bytes
        self._host = _Arena(memory.host(host_slabs * slab_bytes))
        self._hbm = _Arena(memory.hbm(hbm_slabs * slab_bytes))

    def fetch(self, copies: Sequence[Copy], source: Source) -> None:
        """Bank → host arena, and on to the HBM arena. What the bank lacks is left out."""
        found: list[tuple[str, Placed, str]] = []
        pairs: list[tuple[torch.Tensor, memoryview]] = []
        for copy in copies:
            self._host.clear(copy.host)
            kv, name = source.kv(copy.key), source.codec(copy.key)
            if kv is None:
                continue
            size = self._form.row_bytes(self._form.codec(name))
            placed = Placed(copy.host, len(kv) // size, size, self._slab_bytes)
            if placed.fits:  # else it was built again since, and takes more room
                found.append((copy.key, placed, name))
                pairs += _chunks(self._host.views(placed), kv)
        if pairs:
            self._memory.fetch(pairs)
        for item in found:
            self._host.put(*item)
        self.lift([copy for copy in copies if copy.hbm])

    def lift(self, copies: Sequence[Copy]) -> None:
        """Host arena → HBM arena, beside what the device computes."""
        found: list[tuple[str, Placed, str]] = []
        pairs: list[tuple[torch.Tensor, torch.Tensor]] = []
        for copy in copies:
            self._hbm.clear(copy.hbm)
            held = self._host.find(copy.key)
            if held is not None:
                placed, name = held
                target = replace(placed, slabs=copy.hbm)
                found.append((copy.key, target, name))
                pairs += zip(self._hbm.views(target), self._host.views(placed), strict=True)
        if pairs:
            self._memory.lift(pairs)
        for item in found:
            self._hbm.put(*item)

    def inject(self, loads: list[Load]) -> list[Load]:
        """Fills the slots of the loads that lie in the arenas, all layers, in one launch per arena
        and format. Returns the other loads."""
        here: list[Load] = []
        others: list[Load] = []
        for load in loads:
            is_here = all(self._find(piece.key) for piece in load.segments)
            (here if is_here else others).append(load)
        if here:
            slots = np.concatenate([np.stack(load.slots) for load in here], axis=1)  # [G, T]
            self._launch(here, torch.from_numpy(slots).to(self._caches.views[0].device))
        return others

    def _launch(self, loads: list[Load], slots: torch.Tensor) -> None:
        with self._memory.reading():
            for (arena, name), table in self._tables(loads).items():
                self._inject(arena, segment_table(table), slots, self._form.codec(name))

    def _inject(
        self, arena: _Arena, segments: torch.Tensor, slots: torch.Tensor, codec: ItemCodec | None
    ) -> None:
        rows = self._form.rows(arena.bytes, codec)
        inject(rows, segments, slots, self._rope, self._caches, codec)

    def prepare(self, codec: ItemCodec | None, num_groups: int) -> None:
        """Compiles now what reads a format: the kernel differs with whether the number of slots is
        a multiple of 16. Writes nothing."""
        for num_slots in (16, 17):
            nowhere = torch.full((num_groups, num_slots), -1)
            slots = nowhere.to(self._caches.views[0].device)
            self._inject(self._host, segment_table([(0, 1, 1, 0)]), slots, codec)

    def _find(self, key: str) -> tuple[_Arena, Placed, str] | None:
        for arena in (self._hbm, self._host):
            if held := arena.find(key):
                return arena, *held
        return None

    def _tables(
        self, loads: list[Load]
    ) -> dict[tuple[_Arena, str], list[tuple[int, int, int, int]]]:
        """Segments (row of the arena, tokens, shift, target) by arena and format."""
        tables: dict[tuple[_Arena, str], list[tuple[int, int, int, int]]] = {}
        at = 0
        for segment in (segment for load in loads for segment in load.segments):
            held = self._find(segment.key)
            assert held is not None
            arena, placed, name = held
            table = tables.setdefault((arena, name), [])
            for row, count in placed.pieces(segment.source, segment.num_tokens):
                table.append((row, count, segment.shift, at))
                at += count
        return tables


def _chunks(
    targets: list[torch.Tensor], kv: memoryview
) -> Iterator[tuple[torch.Tensor, memoryview]]:
    """Each target with the bytes that belong there."""
    at = 0
    for target in targets:
        yield target, kv[at : at + len(target)]
        at += len(target)
