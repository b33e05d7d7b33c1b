"""Reading a tenant out, page by page, in one read transaction. Owns no tables."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Row, Select, literal, select, union_all
from sqlalchemy.ext.asyncio import AsyncConnection

from inferscale_sidecar.core import Moment, Scope, Thread
from inferscale_sidecar.store import block_arrivals, document_arrivals, thread_arrivals
from inferscale_sidecar.store.database import Database
from inferscale_sidecar.store.rows import BATCH, in_scope, is_there, to_memory, to_vector
from inferscale_sidecar.store.schema import embeddings, memories, memory_sources, memory_versions
from inferscale_sidecar.store.transfer_port import (
    Link,
    LinkKind,
    MovedBlock,
    MovedDocument,
    MovedMemory,
    MovedMessage,
    PastVersion,
    Snapshot,
)

_ORDER = {"ADD": 0, "UPDATE": 1, "REPLACE": 2, "EXTRACT": 2}
_KINDS: tuple[LinkKind, LinkKind] = ("superseded_by", "source")


class SqlSnapshots:
    """The reading half of `TransferPort`."""

    _db: Database
    _clock: Callable[[], datetime]

    @asynccontextmanager
    async def snapshot(self, tenant_id: str, scope: Scope | None) -> AsyncIterator[Snapshot]:
        its = memories.c.tenant_id == tenant_id if scope is None else in_scope(tenant_id, scope)
        now = self._clock()
        its &= is_there(Moment(now))
        async with self._db.read() as conn:
            yield SqlSnapshot(conn, its, tenant_id, scope, now)


class SqlSnapshot:
    """Implements `Snapshot` on an open read transaction; `its` is a condition on `memories`."""

    def __init__(
        self,
        conn: AsyncConnection,
        its: ColumnElement[bool],
        tenant_id: str,
        scope: Scope | None,
        now: datetime,
    ) -> None:
        self._conn = conn
        self._its = its
        self._tenant_id = tenant_id
        self._scope = scope
        self._now = now

    async def memories(self, *, with_vectors: bool = False) -> AsyncIterator[list[MovedMemory]]:
        query: Select[Any] = select(*memories.c, literal("queued").label("kv_state"))
        if with_vectors:
            query = query.add_columns(embeddings.c.vector).join(
                embeddings, embeddings.c.memory_id == memories.c.id
            )
        last = 0
        while True:
            page = query.where(self._its, memories.c.num > last).order_by(memories.c.num)
            rows = (await self._conn.execute(page.limit(BATCH))).all()
            if not rows:
                return
            past = await self._versions([row.id for row in rows])
            yield [_moved(row, past[row.id], with_vector=with_vectors) for row in rows]
            last = rows[-1].num

    async def _versions(self, ids: Sequence[str]) -> dict[str, list[PastVersion]]:
        query = select(memory_versions).where(
            memory_versions.c.memory_id.in_(ids), memory_versions.c.event.in_(list(_ORDER))
        )
        found: dict[str, list[PastVersion]] = {each: [] for each in ids}
        for row in await self._conn.execute(query):
            past = PastVersion(row.version, row.event, row.text, row.created_at)
            found[row.memory_id].append(past)
        for versions in found.values():
            versions.sort(key=lambda past: (past.version, _ORDER[past.event]))
        return found

    def blocks(self) -> AsyncIterator[list[MovedBlock]]:
        return block_arrivals.read_out(self._conn, self._tenant_id, self._scope)

    def threads(self) -> AsyncIterator[list[Thread | MovedMessage]]:
        return thread_arrivals.read_out(self._conn, self._tenant_id, self._scope)

    def documents(self, *, with_vectors: bool = False) -> AsyncIterator[list[MovedDocument]]:
        return document_arrivals.read_out(
            self._conn, self._tenant_id, self._scope, self._now, with_vectors=with_vectors
        )

    async def links(self) -> AsyncIterator[list[Link]]:
        replaced = select(memories.c.num, literal(0), memories.c.id, memories.c.superseded_by)
        sources = select(
            memories.c.num, literal(1), memories.c.id, memory_sources.c.source_id
        ).join(memory_sources, memory_sources.c.memory_id == memories.c.id)
        both = union_all(
            replaced.where(self._its, memories.c.superseded_by.is_not(None)),
            sources.where(self._its),
        ).order_by("num", memories.c.superseded_by)
        found = await self._conn.stream(both)
        async for rows in found.partitions(BATCH):
            yield [Link(_KINDS[kind], memory, target) for _, kind, memory, target in rows]


def _moved(row: Row[Any], past: Sequence[PastVersion], *, with_vector: bool) -> MovedMemory:
    vector = to_vector(row.vector) if with_vector else None
    return MovedMemory(to_memory(row), tuple(past), vector)
