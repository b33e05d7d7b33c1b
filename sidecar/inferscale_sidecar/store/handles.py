"""Handles in SQL. They keep ids, versions and scores; text is joined from the live memories.

Invariant: what was deleted or updated since is not in a composition read from here, because there
is no second copy of its text.
"""

from collections.abc import Callable
from datetime import datetime

from sqlalchemy import delete, func, insert, select

from inferscale_sidecar.core import Composition, CompositionItem, Scope
from inferscale_sidecar.store.database import Database
from inferscale_sidecar.store.rows import is_searchable
from inferscale_sidecar.store.schema import handle_items, handles, memories


class SqlHandles:
    """Implements `HandlePort`."""

    _db: Database
    _clock: Callable[[], datetime]

    async def put_handle(self, composition: Composition) -> None:
        row = {
            "id": composition.handle,
            "tenant_id": composition.tenant_id,
            "user_id": composition.scope.user_id,
            "agent_id": composition.scope.agent_id,
            "run_id": composition.scope.run_id,
            "created_at": composition.created_at,
            "expires_at": composition.expires_at,
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
        async with self._db.write(is_truth=False) as conn:
            await conn.execute(delete(handles).where(handles.c.expires_at <= self._clock()))
            await conn.execute(insert(handles).values(row))
            if items:
                await conn.execute(insert(handle_items), items)

    async def get_handle(self, tenant_id: str, handle_id: str) -> Composition | None:
        live = (memories.c.id == handle_items.c.memory_id) & (
            memories.c.version == handle_items.c.version
        )
        live &= is_searchable()
        lines = (
            select(handle_items, memories.c.text)
            .join(memories, live & (memories.c.tenant_id == tenant_id))
            .where(handle_items.c.handle_id == handle_id)
            .order_by(handle_items.c.position)
        )
        async with self._db.read() as conn:
            found = await conn.execute(
                select(handles).where(
                    handles.c.id == handle_id,
                    handles.c.tenant_id == tenant_id,
                    handles.c.expires_at > self._clock(),
                )
            )
            row = found.one_or_none()
            if row is None:
                return None
            items = tuple(
                CompositionItem(line.memory_id, line.version, line.text, line.score)
                for line in await conn.execute(lines)
            )
        scope = Scope(row.user_id, row.agent_id, row.run_id)
        return Composition(row.id, row.tenant_id, scope, items, row.created_at, row.expires_at)

    async def count_handles(self, now: datetime) -> int:
        query = select(func.count()).select_from(handles).where(handles.c.expires_at > now)
        async with self._db.read() as conn:
            return await conn.scalar(query) or 0
