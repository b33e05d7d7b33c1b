"""Memories that last until a given time: what that means in SQL, and their removal afterwards.

Owns the end of a memory's life by time, in the caller's transaction or, for the sweep, its own.
Invariant: from `expires_at` on a memory is not there for anybody who does not ask for the expired;
the sweep then takes away what a deletion would, and nothing that lives longer.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from inferscale_sidecar.core import Memory
from inferscale_sidecar.store import removal
from inferscale_sidecar.store.database import Database
from inferscale_sidecar.store.records import Removed
from inferscale_sidecar.store.rows import batched, next_seq
from inferscale_sidecar.store.schema import kv_item_contexts, kv_items, memories, memory_sources


def later(one: datetime | None, other: datetime | None) -> datetime | None:
    """The later of two ends; None is never."""
    return None if one is None or other is None else max(one, other)


def has_expired_part(now: datetime) -> ColumnElement[bool]:
    """Condition on `kv_items`: its memory, or one that it was encoded behind, has expired."""
    expired = memories.c.expires_at <= now
    own = select(memories.c.id).where(memories.c.id == kv_items.c.memory_id, expired)
    behind = (
        select(memories.c.id)
        .join(kv_item_contexts, kv_item_contexts.c.memory_id == memories.c.id)
        .where(kv_item_contexts.c.kv_item_id == kv_items.c.id, expired)
    )
    return own.correlate(kv_items).exists() | behind.correlate(kv_items).exists()


async def drop_expired(
    conn: AsyncConnection,
    found: dict[str, Memory],
    *,
    seq: int,
    now: datetime,
    keep: Collection[str] = (),
) -> dict[str, Memory]:
    """Those of `found` that have not expired; the others are removed, so that they stand in no
    new text's way. The messages `keep` stay, though nothing else may come from them any more."""
    gone = [memory for memory in found.values() if memory.has_expired(now)]
    if not gone:
        return found
    left = {name: memory for name, memory in found.items() if not memory.has_expired(now)}
    keep = {*keep, *(memory.id for memory in left.values())}
    ids = [memory.id for memory in gone]
    await remove_expired(conn, gone[0].tenant_id, ids, seq=seq, now=now, keep=keep)
    return left


async def extend(
    conn: AsyncConnection, wanted: Iterable[tuple[Memory, datetime | None]], *, seq: int
) -> dict[str, Memory]:
    """Memories that were added again live as long as the longer-lived of the two; by id."""
    extended: dict[str, Memory] = {}
    for memory, expires_at in wanted:
        memory = extended.get(memory.id, memory)
        end = later(memory.expires_at, expires_at)
        if end != memory.expires_at:
            values: dict[str, Any] = {"expires_at": end, "seq": seq}
            await conn.execute(update(memories).where(memories.c.id == memory.id).values(values))
        extended[memory.id] = replace(memory, expires_at=end)
    return extended


async def remove_expired(
    conn: AsyncConnection,
    tenant_id: str,
    ids: Sequence[str],
    *,
    seq: int,
    now: datetime,
    keep: Collection[str] = (),
) -> Removed:
    """Remove those of these that have expired, with the messages that only they come from."""
    removed = Removed(0, 0)
    sources = [each for each in await removal.sources_of(conn, ids) if each not in keep]
    for some in batched(ids):
        its = (memories.c.tenant_id == tenant_id) & memories.c.id.in_(some)
        its &= memories.c.expires_at <= now
        removed += await removal.remove(conn, its, seq=seq, now=now, event="EXPIRE")
    in_use = select(memory_sources.c.source_id)  # by facts that live longer
    for some in batched(sources):
        its = (memories.c.tenant_id == tenant_id) & memories.c.id.in_(some)
        its &= memories.c.id.not_in(in_use.where(memory_sources.c.source_id.in_(some)))
        removed += await removal.remove(conn, its, seq=seq, now=now)
    return removed


class SqlExpiry:
    """Implements `ExpiryPort`."""

    _db: Database
    _clock: Callable[[], datetime]

    async def drop_expired_kv(self, now: datetime) -> int:
        gone = select(memories.c.id).where(memories.c.expires_at <= now)
        behind = select(kv_item_contexts.c.kv_item_id).where(kv_item_contexts.c.memory_id.in_(gone))
        doomed = kv_items.c.memory_id.in_(gone) | kv_items.c.id.in_(behind)
        async with self._db.read() as conn:  # most often there is none, and no need for the lock
            if await conn.scalar(select(kv_items.c.id).where(doomed).limit(1)) is None:
                return 0
        async with self._db.write() as conn:
            return await removal.queue_purges(conn, doomed, now)

    async def sweep_expired(self, until: datetime, *, limit: int) -> Removed:
        oldest = (
            select(memories.c.tenant_id, memories.c.id)
            .where(memories.c.expires_at <= until)
            .order_by(memories.c.expires_at)
            .limit(limit)
        )
        async with self._db.read() as conn:
            found = (await conn.execute(oldest)).all()
        by_tenant: dict[str, list[str]] = {}
        for tenant_id, memory_id in found:
            by_tenant.setdefault(tenant_id, []).append(memory_id)
        removed = Removed(0, 0)
        for tenant_id, ids in by_tenant.items():
            async with self._db.write() as conn:
                seq = await next_seq(conn, tenant_id)
                removed += await remove_expired(conn, tenant_id, ids, seq=seq, now=until)
        return removed
