"""Reading memories from SQL: by id, by scope, and by change number. Snapshots, never locks."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime

from sqlalchemy import ColumnElement, func, select
from sqlalchemy.ext.asyncio import AsyncConnection

from inferscale_sidecar.core import Memory, Moment, Scope
from inferscale_sidecar.store.as_of import (
    select_index_rows_at,
    select_memories_at,
    to_index_row_at,
    to_memory_at,
    was_found,
    was_there,
)
from inferscale_sidecar.store.conditions import Condition, to_sql
from inferscale_sidecar.store.database import Database
from inferscale_sidecar.store.records import IndexRow, Page, ScopeChanges, VersionEvent
from inferscale_sidecar.store.rows import (
    batched,
    in_list,
    in_scope,
    is_searchable,
    select_index_rows,
    to_index_row,
)
from inferscale_sidecar.store.schema import memories, memory_versions, tenants


class SqlReads:
    """The reading half of `MemoryPort`."""

    _db: Database
    _clock: Callable[[], datetime]

    async def get_memories(
        self,
        tenant_id: str,
        ids: Sequence[str],
        *,
        at: Moment | None = None,
        fingerprint: str | None = None,
    ) -> dict[str, Memory]:
        at = at or Moment(self._clock())

        async def work(conn: AsyncConnection) -> dict[str, Memory]:
            found: dict[str, Memory] = {}
            for some in batched(ids):
                query = select_memories_at(at, fingerprint).where(
                    memories.c.tenant_id == tenant_id, memories.c.id.in_(some), was_there(at)
                )
                found |= {row.id: to_memory_at(row, at) for row in await conn.execute(query)}
            return found

        return await self._db.run_read(work)

    async def list_memories(
        self,
        tenant_id: str,
        scope: Scope,
        *,
        limit: int,
        before: int | None = None,
        offset: int = 0,
        condition: Condition | None = None,
        count: bool = True,
        at: Moment | None = None,
        fingerprint: str | None = None,
    ) -> Page:
        at = at or Moment(self._clock())
        its = in_scope(tenant_id, scope) & was_found(at)
        if condition is not None:
            its &= _decided(condition)
        query = select_memories_at(at, fingerprint).where(its).order_by(memories.c.num.desc())
        if before is not None:
            query = query.where(memories.c.num < before)
        number = select(func.count()).select_from(memories).where(its)
        async with self._db.read() as conn:
            total = await conn.scalar(number) if count else 0
            rows = (await conn.execute(query.offset(offset).limit(limit + 1))).all()
        more = len(rows) > limit
        return Page(
            memories=[to_memory_at(row, at) for row in rows[:limit]],
            total=total or 0,
            next_before=rows[limit - 1].num if more else None,
        )

    async def history(self, tenant_id: str, memory_id: str) -> list[VersionEvent]:
        # By id alone: told the tenant, SQLite would walk all of its versions.
        query = select(memory_versions).where(memory_versions.c.memory_id == memory_id)
        of_it = select(memories.c.expires_at).where(
            memories.c.tenant_id == tenant_id, memories.c.id == memory_id
        )
        now = self._clock()
        async with self._db.read() as conn:
            found = (await conn.execute(query)).all()
            expires_at = await conn.scalar(of_it)
        # An import writes all versions of a memory under one change number.
        rows = sorted(
            (row for row in found if row.tenant_id == tenant_id),
            key=lambda row: (row.seq, row.version, row.created_at),
        )
        events = [VersionEvent(r.memory_id, r.version, r.event, r.text, r.created_at) for r in rows]
        if expires_at is None or expires_at > now:
            return events
        # Not swept yet: it reads as if it were.
        last = VersionEvent(memory_id, events[-1].version, "EXPIRE", None, expires_at)
        return [*(replace(event, text=None) for event in events), last]

    async def changes(
        self, tenant_id: str, scope: Scope, *, since: int | None, now: datetime | None = None
    ) -> ScopeChanges:
        searchable = is_searchable(Moment(now or self._clock()))

        async def work(conn: AsyncConnection) -> ScopeChanges:
            seq = await conn.scalar(select(tenants.c.change_seq).where(tenants.c.id == tenant_id))
            if seq is None or seq == since:
                return ScopeChanges(seq or 0, (), ())
            its = in_list(tenant_id, scope)
            query = select_index_rows().where(its, searchable).order_by(memories.c.num)
            if since is None:
                rows = (await conn.execute(query)).all()
                return ScopeChanges(seq, [to_index_row(row) for row in rows], ())
            rows = (await conn.execute(query.where(memories.c.seq > since))).all()
            gone = await conn.scalars(
                select(memory_versions.c.memory_id).where(
                    memory_versions.c.tenant_id == tenant_id,
                    memory_versions.c.event.in_(("DELETE", "EXPIRE")),
                    memory_versions.c.seq > since,
                )
            )
            kept = await conn.scalars(
                select(memories.c.id).where(its, memories.c.seq > since, ~searchable)
            )
            found = [to_index_row(row) for row in rows]
            return ScopeChanges(seq, found, [*gone.all(), *kept.all()])

        return await self._db.run_read(work)

    async def scope_rows(self, tenant_id: str, scope: Scope, *, at: Moment) -> list[IndexRow]:
        there = in_scope(tenant_id, scope) & was_found(at)
        query = select_index_rows_at(at).where(there).order_by(memories.c.num)
        async with self._db.read() as conn:
            return [to_index_row_at(row, at) for row in await conn.execute(query)]

    async def live_versions(self, tenant_id: str, ids: Sequence[str]) -> dict[str, int]:
        found: dict[str, int] = {}
        searchable = is_searchable(Moment(self._clock()))
        async with self._db.read() as conn:
            for some in batched(ids):
                query = select(memories.c.id, memories.c.version).where(
                    memories.c.tenant_id == tenant_id, memories.c.id.in_(some), searchable
                )
                found |= {row.id: row.version for row in await conn.execute(query)}
        return found


def _decided(condition: Condition) -> ColumnElement[bool]:
    """Raises ValueError for a condition that the database cannot decide."""
    sql = to_sql(condition)
    if sql is None:
        raise ValueError(f"{condition} looks at more than columns: filter what was read instead")
    return sql
