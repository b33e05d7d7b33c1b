"""Of whom there are memories, in SQL: counted from the memories, kept nowhere else."""

from collections.abc import Callable
from datetime import datetime
from typing import Any

from sqlalchemy import Select, func, literal, select, union_all

from inferscale.protocol.values import SCOPE_IDS
from inferscale_sidecar.core import Moment
from inferscale_sidecar.store.database import Database
from inferscale_sidecar.store.records import Entity, EntityPage
from inferscale_sidecar.store.rows import is_searchable
from inferscale_sidecar.store.schema import memories


class SqlEntities:
    """The part of `MemoryPort` that lists users, agents, runs and apps."""

    _db: Database
    _clock: Callable[[], datetime]

    async def list_entities(
        self, tenant_id: str, id_name: str | None = None, *, limit: int, after: int | None = None
    ) -> EntityPage:
        names = SCOPE_IDS if id_name is None else (id_name,)
        at = Moment(self._clock())
        found = union_all(*(_named(tenant_id, name, at) for name in names)).subquery()
        query = select(found).order_by(found.c.number).limit(limit + 1)
        if after is not None:
            query = query.where(found.c.number > after)
        async with self._db.read() as conn:
            total = await conn.scalar(select(func.count()).select_from(found))
            rows = (await conn.execute(query)).all()
        more = len(rows) > limit
        entities = [
            Entity(SCOPE_IDS[row.rank], row.id, row.memories, row.created_at, row.updated_at)
            for row in rows[:limit]
        ]
        return EntityPage(entities, total or 0, rows[limit - 1].number if more else None)


def _named(tenant_id: str, name: str, at: Moment) -> Select[Any]:
    """All values of one id; `number` orders them, and those of the other ids, by their first."""
    column, rank = memories.c[name], SCOPE_IDS.index(name)
    return (
        select(
            (func.min(memories.c.num) * len(SCOPE_IDS) + rank).label("number"),
            literal(rank).label("rank"),
            column.label("id"),
            func.count().label("memories"),
            func.min(memories.c.created_at).label("created_at"),
            func.max(memories.c.updated_at).label("updated_at"),
        )
        .where(memories.c.tenant_id == tenant_id, column.is_not(None), is_searchable(at))
        .group_by(column)
    )
