"""The purge queue in SQL: keys that have to leave a bank, now or from some moment on, and names of
texts that have to leave the prefix caches of its engines.

Invariants: a key stays in the queue until its bank has dropped it, so a crash loses none. Tails of
conversations are due at once when their scope is forgotten, also those that were being built then:
both are written under the lock of their tenant.
"""

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

from sqlalchemy import (
    Column,
    ColumnElement,
    delete,
    insert,
    literal,
    or_,
    select,
    true,
    tuple_,
    update,
)
from sqlalchemy.ext.asyncio import AsyncConnection

from inferscale_sidecar.core import Scope, Tail
from inferscale_sidecar.store.columns import UtcDateTime
from inferscale_sidecar.store.database import Database
from inferscale_sidecar.store.rows import (
    batched,
    has_ids,
    insert_or,
    lock_tenants,
    scope_digest,
)
from inferscale_sidecar.store.schema import banks, forgotten_scopes, kv_items, purges
from inferscale_sidecar.store.thread_tables import threads

REMEMBERED = timedelta(days=1)
"""No request takes longer: what was forgotten before that concerns none that is under way."""


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


async def purge_tails(conn: AsyncConnection, tenant_id: str, scope: Scope, now: datetime) -> int:
    """Tails that name all ids of a scope are due, and so is what requests have under way.

    Args:
        conn: in a write transaction with the tenant's lock, at its end: what is asked from `now`
            on is kept.

    Returns:
        How many keys there were.
    """
    its = has_ids(purges, tenant_id, scope) & (purges.c.created_at > now)
    found = await conn.execute(update(purges).where(its).values(created_at=now))
    row = {"tenant_id": tenant_id, "scope_key": scope_digest(scope), "forgotten_at": now}
    known = [forgotten_scopes.c.tenant_id, forgotten_scopes.c.scope_key]
    new = insert_or(conn, forgotten_scopes).values(row)
    again = new.on_conflict_do_update(index_elements=known, set_={"forgotten_at": now})
    await conn.execute(again)
    # Those that another process sweeps at this moment are left to it.
    old = select(*known).where(forgotten_scopes.c.forgotten_at < now - REMEMBERED)
    old = old.with_for_update(skip_locked=True)
    await conn.execute(delete(forgotten_scopes).where(tuple_(*known).in_(old)))
    return found.rowcount


async def purge_tails_of_threads(
    conn: AsyncConnection, tenant_id: str, condition: ColumnElement[bool], now: datetime
) -> int:
    """Tails that name one of these threads are due; returns how many keys.

    Args:
        conn: as above.
        condition: which rows of `threads`.
    """
    named = select(threads.c.num).where(
        condition,
        threads.c.id == purges.c.run_id,
        or_(purges.c.user_id.is_(None), purges.c.user_id == threads.c.user_id),
    )
    its = (purges.c.tenant_id == tenant_id) & purges.c.run_id.is_not(None)
    its &= (purges.c.created_at > now) & named.correlate(purges).exists()
    return (await conn.execute(update(purges).where(its).values(created_at=now))).rowcount


class SqlPurges:
    """Implements the purges of `KvPort` and `BankPort`."""

    _db: Database
    _clock: Callable[[], datetime]

    async def purge_later(
        self, fingerprint: str, keys: Sequence[str], tenant_id: str, tail: Tail
    ) -> bool:
        same = {"fingerprint": fingerprint, "tenant_id": tenant_id, **tail.scope.ids}
        async with self._db.write(is_truth=False) as conn:
            await lock_tenants(conn, [tenant_id])
            is_forgotten = await _is_forgotten(conn, tenant_id, tail)
            due = self._clock() + timedelta(seconds=0 if is_forgotten else tail.keep_s)
            rows = [{**same, "key": key, "created_at": due} for key in keys]
            await conn.execute(insert(purges), rows)
        return not is_forgotten

    async def take_purges(self, fingerprint: str, *, limit: int) -> list[str]:
        here = (purges.c.fingerprint == fingerprint) & (purges.c.created_at <= self._clock())
        # In the order of the index: with any other, all that waits would be sorted for each batch.
        first = select(purges.c.key).where(here).order_by(purges.c.key).limit(limit)
        async with self._db.read() as conn:
            if await conn.scalar(first.limit(1)) is None:
                return []
        async with self._db.write() as conn:
            while keys := list(dict.fromkeys(await conn.scalars(first))):
                if wanted := await _without_used(conn, fingerprint, keys, here):
                    return wanted
        return []

    async def finish_purges(self, keys: Sequence[str], *, fingerprint: str | None = None) -> None:
        async with self._db.write() as conn:
            for some in batched(keys):
                # A tail that was built again meanwhile is in the bank, and due later.
                query = delete(purges).where(
                    purges.c.key.in_(some), purges.c.created_at <= self._clock()
                )
                if fingerprint is not None:
                    query = query.where(purges.c.fingerprint == fingerprint)
                await conn.execute(query)


async def _is_forgotten(conn: AsyncConnection, tenant_id: str, tail: Tail) -> bool:
    """Whether its scope, or a wider one, was forgotten since the request came."""
    parts = [scope_digest(part) for part in tail.scope.parts]
    query = select(forgotten_scopes.c.scope_key).where(
        forgotten_scopes.c.tenant_id == tenant_id,
        forgotten_scopes.c.scope_key.in_(parts),
        forgotten_scopes.c.forgotten_at >= tail.asked_at,
    )
    return await conn.scalar(query.limit(1)) is not None


async def _without_used(
    conn: AsyncConnection, fingerprint: str, keys: Sequence[str], here: ColumnElement[bool]
) -> list[str]:
    """These keys without those that came back into use (same text, same neighbours).

    Args:
        here: which rows of the queue these leave.
    """
    used: set[str] = set()
    for some in batched(keys):
        items = (kv_items.c.fingerprint == fingerprint) & kv_items.c.key.in_(some)
        used.update(await conn.scalars(select(kv_items.c.key).where(items)))
    for some in batched(sorted(used)):
        await conn.execute(delete(purges).where(here, purges.c.key.in_(some)))
    return [key for key in keys if key not in used]
