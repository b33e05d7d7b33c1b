"""Which item has which slabs of an arena, and where its rows lie in them.

Pure bookkeeping: no memory, no clock. Invariants: every slab is free or belongs to one item; what
is pinned never leaves; a reservation is whole, or nothing changes.
"""

from collections import Counter, OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

SLAB_TOKENS = 8
"""Uncompressed tokens of a slab: some 200 kB of a model of 135M, 1 MB of one of 8B."""
Name = tuple[str, int]
"""An item's key and checksum: an item that was built again is another one."""


def rows_per_slab(slab_bytes: int, row_bytes: int) -> int:
    """Rows (stored tokens) that fit into any slab, if rows lie at multiples of their size."""
    return slab_bytes // row_bytes - (slab_bytes % row_bytes != 0)


def slabs_for(num_rows: int, slab_bytes: int, row_bytes: int) -> int:
    """Slabs that an item takes."""
    return -(-num_rows // rows_per_slab(slab_bytes, row_bytes))


@dataclass(frozen=True)
class Placed:
    """The rows of one item in an arena that is read as one array of rows [R, row_bytes].

    Slabs begin at multiples of `slab_bytes`, rows at multiples of `row_bytes`: the first row of a
    slab is the first that begins in it.
    """

    slabs: tuple[int, ...]
    num_rows: int
    row_bytes: int
    slab_bytes: int

    @property
    def fits(self) -> bool:
        """Whether the slabs have room for all rows."""
        return self.num_rows <= len(self.slabs) * rows_per_slab(self.slab_bytes, self.row_bytes)

    def pieces(self, start: int, count: int) -> Iterator[tuple[int, int]]:
        """(row of the arena, rows from there) of the item's rows [start, start + count)."""
        each = rows_per_slab(self.slab_bytes, self.row_bytes)
        while count:
            slab, offset = self.slabs[start // each], start % each
            taken = min(each - offset, count)
            yield -(-slab * self.slab_bytes // self.row_bytes) + offset, taken
            start, count = start + taken, count - taken


class Slabs:
    """An arena's slabs.

    Args:
        num_slabs: how many there are; 0: nothing ever fits.
    """

    def __init__(self, num_slabs: int) -> None:
        self.num_slabs = num_slabs
        self.evicted = 0
        self._free = list(range(num_slabs))
        self._items: OrderedDict[Name, tuple[int, ...]] = OrderedDict()  # least recently used first
        self._pins: Counter[Name] = Counter()
        self._held: dict[str, list[Name]] = {}

    def __len__(self) -> int:
        return len(self._items)

    @property
    def used(self) -> int:
        """Slabs that belong to an item."""
        return self.num_slabs - len(self._free)

    def slabs_of(self, name: Name) -> tuple[int, ...] | None:
        """An item's slabs; None if it has none."""
        return self._items.get(name)

    def is_pinned(self, name: Name) -> bool:
        """Whether anybody holds the item."""
        return self._pins[name] > 0

    def reserve(self, holder: str, sizes: Mapping[Name, int]) -> list[Name] | None:
        """Pins items for a holder, besides what it holds already.

        Args:
            holder: until it calls `release`, none of them leaves.
            sizes: slabs of each item.

        Returns:
            Those that had no slabs until now: their content has to be copied. None if they do not
            fit beside what is pinned: nothing has changed.
        """
        new = [name for name in sizes if name not in self._items]
        missing = sum(sizes[name] for name in new) - len(self._free)
        leaving = self._oldest(missing, sizes) if missing > 0 else []
        if leaving is None:
            return None
        for name in leaving:
            self.drop(name)
            self.evicted += 1
        for name in new:
            self._items[name] = tuple(self._free.pop() for _ in range(sizes[name]))
        for name in sizes:
            self._items.move_to_end(name)
        self._pins.update(sizes.keys())
        self._held.setdefault(holder, []).extend(sizes)
        return new

    def _oldest(self, missing: int, wanted: Iterable[Name]) -> list[Name] | None:
        """Items that leave so many slabs free, the least recently used first; None if too few."""
        chosen: list[Name] = []
        for name, slabs in self._items.items():
            if missing <= 0:
                break
            if not self.is_pinned(name) and name not in wanted:
                chosen.append(name)
                missing -= len(slabs)
        return chosen if missing <= 0 else None

    def release(self, holder: str) -> None:
        """The holder needs its items no more."""
        for name in self._held.pop(holder, ()):
            self._pins[name] -= 1
            if not self._pins[name]:
                del self._pins[name]

    def drop(self, name: Name) -> None:
        """Gives an item's slabs back; nothing if it is pinned, or not there."""
        if not self.is_pinned(name):
            self._free.extend(self._items.pop(name, ()))
