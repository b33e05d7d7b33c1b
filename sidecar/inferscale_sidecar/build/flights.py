"""Windows that the engine is encoding at this moment: one task each, and the items it holds.

Owns the tasks, not what they do. Invariant: whoever leaves `landing` leaves no task behind.
"""

import asyncio
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import asynccontextmanager
from typing import Any

from inferscale_sidecar.build.window_job import ItemId
from inferscale_sidecar.core import BuildItem


class Flights:
    """See the module."""

    def __init__(self) -> None:
        self._items: dict[asyncio.Task[None], frozenset[ItemId]] = {}

    def __len__(self) -> int:
        return len(self._items)

    @property
    def busy(self) -> frozenset[ItemId]:
        """All items that are in flight."""
        return frozenset[ItemId]().union(*self._items.values())

    def start(self, job: Coroutine[Any, Any, None], window: Sequence[BuildItem]) -> None:
        """Run `job`, which encodes the items of `window`."""
        task = asyncio.create_task(job, name="build-window")
        self._items[task] = frozenset((i.memory_id, i.version) for i in window)

    async def wait_for_one(self, wake: asyncio.Event) -> None:
        """Until a window is done, or `wake` is set. Raises what a window raised."""
        woken = asyncio.create_task(wake.wait())
        try:
            done, _ = await asyncio.wait({woken, *self._items}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            woken.cancel()
        for task in [t for t in self._items if t in done]:
            del self._items[task]
            task.result()

    @asynccontextmanager
    async def landing(self) -> AsyncIterator[None]:
        """Abort at the end what is in flight still."""
        try:
            yield
        finally:
            rest, self._items = list(self._items), {}
            for task in rest:
                task.cancel()
            await asyncio.gather(*rest, return_exceptions=True)
