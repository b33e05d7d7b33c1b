"""The sweep: what has expired is removed for good, as by a deletion, in the background.

Owns when and how much at a time, not how. Invariant: it never decides what can be read; that is a
matter of the time alone, and reading does not wait for it.
"""

import asyncio
import logging
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from inferscale_sidecar.store.expiry_port import ExpiryPort
from inferscale_sidecar.store.records import Removed

log = logging.getLogger(__name__)

BATCH = 500
"""Memories that go in one transaction, so that no writer waits long."""


class Sweeper:
    """Sweeps at intervals.

    Args:
        store: the truth.
        every_s: between two sweeps.
        keep_s: how long what has expired is kept, for those who ask for it.
        on_write: called when something went. Must not block.
        clock: aware UTC time.
    """

    def __init__(
        self,
        store: ExpiryPort,
        *,
        every_s: float,
        keep_s: float,
        on_write: Callable[[], None] = lambda: None,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._store = store
        self._every_s = every_s
        self._keep = timedelta(seconds=keep_s)
        self._on_write = on_write
        self._clock = clock

    async def sweep(self) -> Removed:
        """Remove all that has expired and is not kept any longer; the KV of all that has."""
        now = self._clock()
        dropped = await self._store.drop_expired_kv(now)
        total = Removed(0, dropped)
        while True:
            removed = await self._store.sweep_expired(now - self._keep, limit=BATCH)
            total += removed
            if not removed.memories and not removed.sources:
                break
        if total != Removed(0, 0):
            self._on_write()
        return total

    async def run(self) -> None:
        """Sweep until cancelled."""
        while True:
            try:
                removed = await self.sweep()
                if removed.memories:
                    log.info("swept %d expired memories", removed.memories)
            except Exception:  # a database that is away for a while comes back
                log.exception("the sweep of expired memories failed; it is tried again")
            await asyncio.sleep(self._every_s)
