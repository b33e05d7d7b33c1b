"""Keeps the store's idea of the bank true: purges what was deleted, forgets what the bank lost.

Owns the two-way comparison, not the building. Invariant: a purge is finished in the store only
after the bank has dropped the key, so a crash between the two repeats it and loses none.
"""

import logging
import re
import time
from collections.abc import Callable, Iterable, Sequence

from inferscale_sidecar.build.ports import BuildStore
from inferscale_sidecar.engine.base import Engine

log = logging.getLogger(__name__)

BATCH = 500
_KEY = re.compile("[0-9a-f]{64}")
BIND_EVERY_S = 3600.0


class Binder:
    """Says which bank is in use: at the first contact, and every hour."""

    def __init__(self, store: BuildStore, engine: Engine) -> None:
        self._store, self._engine = store, engine
        self._bound: tuple[str, float] = ("", 0.0)

    async def bind(self, fingerprint: str) -> None:
        """A bank that was given up meanwhile is emptied: nobody kept account of what should have
        left it.

        Raises:
            EngineUnavailable: it may not be emptied yet; bind again.
        """
        name, until = self._bound
        if name == fingerprint and time.monotonic() < until:
            return
        if await self._store.bind_bank(fingerprint):
            count = await self._engine.clear()
            await self._store.bank_emptied(fingerprint)
            log.warning("the bank %s was away for long; %d items left it", fingerprint, count)
        self._bound = (fingerprint, time.monotonic() + BIND_EVERY_S)


async def purge(
    store: BuildStore,
    engine: Engine,
    fingerprint: str,
    on_purge: Callable[[Sequence[str]], None] = lambda keys: None,
) -> int:
    """Deletes what the store wants gone; returns how many keys and names.

    Args:
        on_purge: told the keys that are gone.

    Raises:
        EngineUnavailable: the rest stays queued.
    """
    count = 0
    while keys := await store.take_purges(fingerprint, limit=BATCH):
        items = [key for key in keys if _KEY.fullmatch(key)]
        await engine.delete(items, keys)  # the id of a memory may look like a key: both then
        on_purge(items)
        await store.finish_purges(keys, fingerprint=fingerprint)
        count += len(keys)
    return count


async def reconcile(store: BuildStore, engine: Engine, fingerprint: str) -> int:
    """After a restart: what the bank does not hold becomes pending again. Returns how many keys.

    Raises:
        EngineUnavailable: nothing was forgotten that the bank did not deny.
    """
    missing: list[str] = []
    async for keys in store.all_keys(fingerprint):
        missing += await _missing(engine, keys)
    return await _forget(store, fingerprint, missing)


async def check(store: BuildStore, engine: Engine, fingerprint: str, keys: Iterable[str]) -> int:
    """The same for some keys only, that a request asked for in vain."""
    return await _forget(store, fingerprint, await _missing(engine, list(keys)))


async def _missing(engine: Engine, keys: list[str]) -> list[str]:
    missing: list[str] = []
    for at in range(0, len(keys), BATCH):
        batch = keys[at : at + BATCH]
        present = await engine.present(batch)
        missing += [key for key in batch if key not in present]
    return missing


async def _forget(store: BuildStore, fingerprint: str, keys: list[str]) -> int:
    for at in range(0, len(keys), BATCH):
        await store.forget_kv(fingerprint, keys[at : at + BATCH])
    return len(keys)
