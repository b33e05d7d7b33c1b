"""Which items belong into the company of others, and which depend on company. Owns no tables.

Invariant: an item's neighbours are live, of the same tenant and the same list.
"""

from collections.abc import Callable, Sequence
from datetime import datetime

import numpy as np
from sqlalchemy import func, select

from inferscale_sidecar.core import BuildItem, Moment
from inferscale_sidecar.store.database import Database
from inferscale_sidecar.store.neighbour_port import EarlyItem
from inferscale_sidecar.store.removal import queue_purges
from inferscale_sidecar.store.rows import is_there, with_state
from inferscale_sidecar.store.schema import embeddings, kv_item_contexts, kv_items, memories

MAX_COMPARED = 4000
"""So many of an owner's newest items are looked through: 6 MB of vectors at 384 dimensions."""


class SqlNeighbours:
    """Part of `SqlStore`."""

    _db: Database
    _clock: Callable[[], datetime]

    async def similar_items(self, items: Sequence[BuildItem], *, limit: int) -> list[BuildItem]:
        """The items closest to the mean of these (of one owner), without them, best last."""
        if not items or not limit:
            return []
        query = (
            select(
                memories.c.id,
                memories.c.version,
                memories.c.tenant_id,
                memories.c.owner,
                memories.c.text,
                embeddings.c.vector,
            )
            .join(embeddings, embeddings.c.memory_id == memories.c.id)
            .where(memories.c.tenant_id == items[0].tenant_id, memories.c.owner == items[0].owner)
            .where(memories.c.status == "live", is_there(Moment(self._clock())))
            .order_by(memories.c.num.desc())
            .limit(MAX_COMPARED)
        )
        async with self._db.read() as conn:
            rows = (await conn.execute(query)).all()
        new = {item.memory_id for item in items}
        own = [_vector(row.vector) for row in rows if row.id in new]
        rest = [row for row in rows if row.id not in new]
        if not own or not rest:
            return []
        scores = np.stack([_vector(row.vector) for row in rest]) @ np.mean(own, axis=0)
        best = np.argsort(-scores, kind="stable")[:limit][::-1]
        return [BuildItem(*rest[n][:5]) for n in best]

    async def early_items(
        self, tenant_id: str, owner: str, fingerprint: str, *, limit: int
    ) -> list[EarlyItem]:
        """The owner's first live items, oldest first."""
        columns = (
            memories.c.id,
            memories.c.version,
            memories.c.tenant_id,
            memories.c.owner,
            memories.c.text,
        )
        behind = (
            select(func.count())
            .where(kv_item_contexts.c.kv_item_id == kv_items.c.id)
            .scalar_subquery()
        )
        query = (
            with_state(select(*columns, kv_items.c.id, behind), fingerprint)
            .where(memories.c.tenant_id == tenant_id, memories.c.owner == owner)
            .where(memories.c.status == "live", is_there(Moment(self._clock())))
            .order_by(memories.c.num)
            .limit(limit)
        )
        async with self._db.read() as conn:
            rows = (await conn.execute(query)).all()
        return [
            EarlyItem(BuildItem(*item), None if number is None else count)
            for *item, number, count in rows
        ]

    async def drop_dependent_kv(self, fingerprint: str) -> int:
        """Drops the KV of items that were encoded behind other memories: they are pending again.

        Returns:
            How many there were.
        """
        behind = select(kv_item_contexts.c.kv_item_id)
        async with self._db.write() as conn:
            doomed = (kv_items.c.fingerprint == fingerprint) & kv_items.c.id.in_(behind)
            return await queue_purges(conn, doomed, self._clock())


def _vector(blob: bytes) -> np.ndarray:
    return np.frombuffer(blob, dtype="<f4")
