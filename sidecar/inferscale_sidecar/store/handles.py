"""Handles in SQL. They keep ids, versions and scores; text is joined from the live memories.

Invariant: what was deleted since is not in a composition read from here, because there is no second
copy of its text; nor is a memory that was updated (unless the handle shows a past moment), or a
block that was detached. A block that was changed stands there in its old version, which its history
has.
"""

from collections.abc import Callable
from datetime import datetime
from typing import Any

from sqlalchemy import Row, Select, delete, func, insert, select
from sqlalchemy.ext.asyncio import AsyncConnection

from inferscale_sidecar.core import Composition, CompositionItem, Moment, PinnedBlock, Scope
from inferscale_sidecar.store.block_rows import shown_in
from inferscale_sidecar.store.block_tables import block_scopes, block_versions, handle_blocks
from inferscale_sidecar.store.database import Database
from inferscale_sidecar.store.rows import is_searchable, is_there
from inferscale_sidecar.store.schema import handle_items, handles, memories, memory_versions


class SqlHandles:
    """Implements `HandlePort`."""

    _db: Database
    _clock: Callable[[], datetime]

    async def put_handle(self, composition: Composition) -> None:
        row = {
            "id": composition.handle,
            "tenant_id": composition.tenant_id,
            **composition.scope.ids,
            "created_at": composition.created_at,
            "expires_at": composition.expires_at,
            "as_of": composition.as_of,
        }
        items = [
            {
                "handle_id": composition.handle,
                "position": position,
                "memory_id": item.memory_id,
                "version": item.version,
                "score": item.score,
            }
            for position, item in enumerate(composition.items)
        ]
        pinned = [
            {
                "handle_id": composition.handle,
                "position": position,
                "block_id": block.block_id,
                "version": block.version,
            }
            for position, block in enumerate(composition.blocks)
        ]

        async def work(conn: AsyncConnection) -> None:
            # Those that another process sweeps at this moment are left to it.
            expired = select(handles.c.id).where(handles.c.expires_at <= self._clock())
            its = handles.c.id.in_(expired.with_for_update(skip_locked=True))
            await conn.execute(delete(handles).where(its))
            await conn.execute(insert(handles).values(row))
            for table, rows in ((handle_items, items), (handle_blocks, pinned)):
                if rows:
                    await conn.execute(insert(table), rows)

        await self._db.run_write(work, is_truth=False)

    async def get_handle(self, tenant_id: str, handle_id: str) -> Composition | None:
        now = self._clock()

        async def work(conn: AsyncConnection) -> Composition | None:
            found = await conn.execute(
                select(handles).where(
                    handles.c.id == handle_id,
                    handles.c.tenant_id == tenant_id,
                    handles.c.expires_at > now,
                )
            )
            row = found.one_or_none()
            if row is None:
                return None
            items = tuple(
                CompositionItem(line.memory_id, line.version, line.text, line.score)
                for line in await conn.execute(_lines(row, now))
            )
            scope = Scope.of(row)
            pinned = tuple([PinnedBlock(*each) for each in await conn.execute(_pinned(row, scope))])
            ends = (row.created_at, row.expires_at)
            return Composition(row.id, row.tenant_id, scope, items, *ends, pinned, row.as_of)

        return await self._db.run_read(work)

    async def count_handles(self, now: datetime) -> int:
        query = select(func.count()).select_from(handles).where(handles.c.expires_at > now)
        async with self._db.read() as conn:
            return await conn.scalar(query) or 0


def _lines(handle: Row[Any], now: datetime) -> Select[Any]:
    """The items that are there still: unchanged, unless the handle shows a past moment."""
    texts = memory_versions.alias("texts")
    its = (memories.c.id == handle_items.c.memory_id) & (memories.c.tenant_id == handle.tenant_id)
    if handle.as_of is None:
        its &= (memories.c.version == handle_items.c.version) & is_searchable(Moment(now))
    else:
        its &= is_there(Moment(now))
    that = (texts.c.memory_id == memories.c.id) & (texts.c.version == handle_items.c.version)
    return (
        select(handle_items, texts.c.text)
        .join(memories, its)
        .join(texts, that & texts.c.event.in_(("ADD", "UPDATE")) & texts.c.text.is_not(None))
        .where(handle_items.c.handle_id == handle.id)
        .order_by(handle_items.c.position)
    )


def _pinned(handle: Row[Any], scope: Scope) -> Select[Any]:
    """The blocks of a handle that are there still, and still attached, as they were then."""
    same = (block_versions.c.block_id == handle_blocks.c.block_id) & (
        block_versions.c.version == handle_blocks.c.version
    )
    attached = select(block_scopes.c.block_id).where(shown_in(handle.tenant_id, scope))
    return (
        select(
            block_versions.c.block_id,
            block_versions.c.version,
            block_versions.c.label,
            block_versions.c.value,
            block_versions.c.description,
        )
        .join(handle_blocks, same)
        .where(
            handle_blocks.c.handle_id == handle.id,
            block_versions.c.tenant_id == handle.tenant_id,
            block_versions.c.event != "DELETE",
            handle_blocks.c.block_id.in_(attached),
        )
        .order_by(handle_blocks.c.position)
    )
