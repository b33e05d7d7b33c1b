"""The purge queue in SQL: keys that have to leave a bank, now or from some moment on, and names of
texts that have to leave the prefix caches of its engines.

Invariant: a key stays in the queue until its bank has dropped it, so a crash loses none.
"""

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

from sqlalchemy import Column, ColumnElement, delete, func, insert, literal, select, true
from sqlalchemy.ext.asyncio import AsyncConnection

from inferscale_sidecar.store.columns import UtcDateTime
from inferscale_sidecar.store.database import Database
from inferscale_sidecar.store.rows import batched
from inferscale_sidecar.store.schema import banks, kv_items, purges


async def queue_texts(
    conn: AsyncConnection, ids: Column[str], doomed: ColumnElement[bool], now: datetime
) -> None:
    """Queue the names of texts for all banks in use: whoever showed them forgets them.

    Args:
        conn: in a write transaction.
        ids: the column of the names (`compose.shown`).
        doomed: which rows of its table.
    """
    names = select(banks.c.fingerprint, ids, literal(now, UtcDateTime))
    names = names.select_from(banks.join(ids.table, true()))  # every bank with every text
    names = names.where(doomed, banks.c.given_up_at.is_(None)).order_by(ids)
    await conn.execute(insert(purges).from_select(["fingerprint", "key", "created_at"], names))


class SqlPurges:
    """Implements the purges of `KvPort` and `BankPort`."""

    _db: Database
    _clock: Callable[[], datetime]

    async def purge_later(self, fingerprint: str, keys: Sequence[str], *, keep_s: float) -> None:
        due = self._clock() + timedelta(seconds=keep_s)
        rows = [{"fingerprint": fingerprint, "key": key, "created_at": due} for key in keys]
        async with self._db.write(is_truth=False) as conn:
            await conn.execute(insert(purges), rows)

    async def take_purges(self, fingerprint: str, *, limit: int) -> list[str]:
        here = (purges.c.fingerprint == fingerprint) & (purges.c.created_at <= self._clock())
        # A key that came back into use meanwhile (same text, same neighbours) is not to go.
        used = select(kv_items.c.key).where(kv_items.c.fingerprint == fingerprint)
        async with self._db.read() as conn:
            if await conn.scalar(select(purges.c.id).where(here).limit(1)) is None:
                return []
        async with self._db.write() as conn:
            await conn.execute(delete(purges).where(here, purges.c.key.in_(used)))
            oldest = select(purges.c.key).where(here, purges.c.key.not_in(used))
            oldest = oldest.group_by(purges.c.key)
            query = oldest.order_by(func.min(purges.c.id)).limit(limit)
            return list((await conn.scalars(query)).all())

    async def finish_purges(self, keys: Sequence[str], *, fingerprint: str | None = None) -> None:
        async with self._db.write() as conn:
            for some in batched(keys):
                query = delete(purges).where(purges.c.key.in_(some))
                if fingerprint is not None:
                    query = query.where(purges.c.fingerprint == fingerprint)
                await conn.execute(query)
