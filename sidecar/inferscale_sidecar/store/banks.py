"""KV banks in SQL: which there are, and what becomes of those that do not come back.

Invariant: every table with a column `fingerprint` holds rows of banks in use or not yet given up;
so a key that a bank may still hold is either known here, or queued for purge here, or that bank is
emptied when it comes back.
"""

from collections.abc import Callable
from datetime import datetime, timedelta

from sqlalchemy import Table, delete, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from inferscale_sidecar.store import build_rows
from inferscale_sidecar.store.columns import metadata
from inferscale_sidecar.store.database import Database
from inferscale_sidecar.store.rows import insert_or
from inferscale_sidecar.store.schema import banks

GIVEN_UP_AFTER = timedelta(days=30)


class SqlBanks:
    """Implements `BankPort`."""

    _db: Database
    _clock: Callable[[], datetime]

    async def bind_bank(self, fingerprint: str) -> bool:
        now = self._clock()
        mine = banks.c.fingerprint == fingerprint
        async with self._db.write() as conn:
            row = (await conn.execute(select(banks).where(mine).with_for_update())).one_or_none()
            if row is None:
                await _adopt(conn, fingerprint)
            new = insert_or(conn, banks).values(fingerprint=fingerprint, seen_at=now)
            key = [banks.c.fingerprint]
            await conn.execute(new.on_conflict_do_update(index_elements=key, set_={"seen_at": now}))
            await build_rows.reset_building(conn, fingerprint, now)
            await _give_up(conn, now)
        return row is not None and row.given_up_at is not None

    async def bank_emptied(self, fingerprint: str) -> None:
        change = update(banks).where(banks.c.fingerprint == fingerprint)
        async with self._db.write() as conn:
            await conn.execute(change.values(given_up_at=None))


async def _adopt(conn: AsyncConnection, fingerprint: str) -> None:
    """What releases recorded that did not tell the banks of one model apart."""
    model, _, bank = fingerprint.partition("@")
    if bank:
        for table in _tables():
            its = table.c.fingerprint == model
            await conn.execute(update(table).where(its).values(fingerprint=fingerprint))


async def _give_up(conn: AsyncConnection, now: datetime) -> None:
    old = (banks.c.seen_at < now - GIVEN_UP_AFTER) & banks.c.given_up_at.is_(None)
    names = (await conn.scalars(select(banks.c.fingerprint).where(old).with_for_update())).all()
    for name in names:
        for table in reversed(_tables()):
            await conn.execute(delete(table).where(table.c.fingerprint == name))
        mine = banks.c.fingerprint == name
        await conn.execute(update(banks).where(mine).values(given_up_at=now))


def _tables() -> list[Table]:
    """All that keep something about a bank, each after those that it refers to."""
    return [t for t in metadata.sorted_tables if "fingerprint" in t.c and t is not banks]
