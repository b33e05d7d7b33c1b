"""Extractions in SQL: messages stored first, facts beside them later, one transaction each.

Invariant: between the two the messages are found like memories; afterwards either their facts are,
and they are only kept, or, after a failure, they are found for good. Nothing is ever in neither.
"""

import uuid
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from inferscale_sidecar.core import Moment, Scope
from inferscale_sidecar.errors import NotFound
from inferscale_sidecar.limits import Limits
from inferscale_sidecar.store import fact_rows, quota
from inferscale_sidecar.store.database import Database
from inferscale_sidecar.store.idempotency import find_results, keep_results
from inferscale_sidecar.store.records import (
    SEARCHABLE,
    Added,
    Draft,
    Extraction,
    FactDraft,
    IdempotencyKey,
)
from inferscale_sidecar.store.rows import (
    batched,
    is_there,
    lock_tenants,
    next_seq,
    select_memories,
    to_memory,
)
from inferscale_sidecar.store.schema import extraction_turns, extractions, memories
from inferscale_sidecar.store.watermark import lower_water_marks

MAX_ERROR_CHARS = 2_000


class SqlExtractions:
    """Implements `ExtractionPort`."""

    _db: Database
    _clock: Callable[[], datetime]
    _limits: Limits

    async def open_extraction(
        self,
        tenant_id: str,
        scope: Scope,
        turns: Sequence[Draft],
        *,
        metadata: dict[str, Any] | None = None,
    ) -> Extraction:
        now = self._clock()
        async with self._db.write() as conn:
            seq = await next_seq(conn, tenant_id)
            texts = [turn.text for turn in turns]
            async with quota.room(conn, tenant_id, scope.user_id, self._limits, texts=texts):
                ids = await fact_rows.put_turns(
                    conn, tenant_id, scope, turns, metadata=metadata, seq=seq, now=now
                )
            known = await _same_extraction(conn, ids)
            if known is None:
                known = str(uuid.uuid4())
                await _insert(conn, known, tenant_id, scope, ids, metadata, now)
            elif await _is_stale(conn, tenant_id, known, now):
                await _settle(conn, known, now, {"state": "pending"})
            return await _load(conn, tenant_id, known, now)

    async def finish_extraction(
        self,
        tenant_id: str,
        extraction_id: str,
        facts: Sequence[FactDraft],
        *,
        dropped: int = 0,
        idempotency: IdempotencyKey | None = None,
        fingerprint: str | None = None,
    ) -> list[Added]:
        now = self._clock()
        async with self._db.write() as conn:
            seq = await next_seq(conn, tenant_id)
            if idempotency:
                earlier = await find_results(conn, tenant_id, idempotency, fingerprint, now=now)
                if earlier is not None:
                    return earlier
            job = await _load(conn, tenant_id, extraction_id, now)
            if job.state == "done":  # by a retry that was faster
                return await fact_rows.facts_of(
                    conn, tenant_id, extraction_id, fingerprint, Moment(now)
                )
            await fact_rows.keep_as_sources(conn, job.turns, seq=seq, now=now)
            async with quota.room(conn, tenant_id, job.scope.user_id, self._limits):
                results = await fact_rows.put_facts(
                    conn, job, facts, seq=seq, now=now, fingerprint=fingerprint
                )
            values = {"state": "done", "facts": len(results), "dropped": dropped}
            await _settle(conn, extraction_id, now, values | {"error_code": None, "error": None})
            if idempotency:
                await keep_results(conn, tenant_id, idempotency, results, now)
        return results

    async def fail_extraction(
        self, tenant_id: str, extraction_id: str, *, code: str, error: str
    ) -> Extraction:
        now = self._clock()
        async with self._db.write() as conn:
            await lock_tenants(conn, [tenant_id])
            job = await _load(conn, tenant_id, extraction_id, now)
            if job.state == "done":
                return job
            ids = [turn.id for turn in job.turns if turn and turn.status == "pending"]
            for some in batched(ids):
                change = update(memories).where(memories.c.id.in_(some))
                await conn.execute(change.values(status="live"))
            if ids:
                await lower_water_marks(conn)  # until now they were not to be built
            values = {"state": "failed", "error_code": code, "error": error[:MAX_ERROR_CHARS]}
            await _settle(conn, extraction_id, now, values)
            return await _load(conn, tenant_id, extraction_id, now)

    async def get_extraction(self, tenant_id: str, extraction_id: str) -> Extraction | None:
        async with self._db.read() as conn:
            try:
                return await _load(conn, tenant_id, extraction_id, self._clock())
            except NotFound:
                return None

    async def pending_extractions(self, *, limit: int) -> list[tuple[str, str]]:
        query = (
            select(extractions.c.tenant_id, extractions.c.id)
            .where(extractions.c.state == "pending")
            .order_by(extractions.c.created_at, extractions.c.id)
            .limit(limit)
        )
        async with self._db.read() as conn:
            return [(row.tenant_id, row.id) for row in await conn.execute(query)]

    async def extracted_facts(
        self, tenant_id: str, extraction_id: str, *, fingerprint: str | None = None
    ) -> list[Added]:
        async with self._db.read() as conn:
            return await fact_rows.facts_of(
                conn, tenant_id, extraction_id, fingerprint, Moment(self._clock())
            )


async def _insert(
    conn: AsyncConnection,
    extraction_id: str,
    tenant_id: str,
    scope: Scope,
    ids: Sequence[str],
    metadata: dict[str, Any] | None,
    now: datetime,
) -> None:
    row = {
        "id": extraction_id,
        "tenant_id": tenant_id,
        **scope.ids,
        "state": "pending",
        "metadata": metadata,
        "created_at": now,
        "updated_at": now,
    }
    await conn.execute(insert(extractions).values(row))
    turns = [
        {"extraction_id": extraction_id, "position": position, "memory_id": memory_id}
        for position, memory_id in enumerate(ids)
    ]
    await conn.execute(insert(extraction_turns), turns)


async def _same_extraction(conn: AsyncConnection, ids: Sequence[str]) -> str | None:
    """An extraction of exactly these messages: to add them again is a retry, not another one."""
    query = (
        select(extraction_turns.c.extraction_id)
        .join(extractions, extractions.c.id == extraction_turns.c.extraction_id)
        .where(extraction_turns.c.memory_id == ids[0], extraction_turns.c.position == 0)
    )
    for extraction_id in (await conn.scalars(query)).all():
        turns = select(extraction_turns.c.memory_id).where(
            extraction_turns.c.extraction_id == extraction_id
        )
        there = (await conn.scalars(turns.order_by(extraction_turns.c.position))).all()
        if list(there) == list(ids):
            return str(extraction_id)
    return None


async def _is_stale(
    conn: AsyncConnection, tenant_id: str, extraction_id: str, now: datetime
) -> bool:
    """It failed, or what it found is not all there any more."""
    job = await _load(conn, tenant_id, extraction_id, now)
    if job.state != "done":
        return job.state == "failed"
    everything = Moment(now, show_expired=True)
    facts = await fact_rows.facts_of(conn, tenant_id, extraction_id, None, everything)
    changed = any(turn and turn.kind == "turn" and turn.status != "source" for turn in job.turns)
    return changed or any(
        fact.memory.status not in SEARCHABLE or fact.memory.has_expired(now) for fact in facts
    )


async def _load(
    conn: AsyncConnection, tenant_id: str, extraction_id: str, now: datetime
) -> Extraction:
    query = select(extractions).where(
        extractions.c.tenant_id == tenant_id, extractions.c.id == extraction_id
    )
    row = (await conn.execute(query)).one_or_none()
    if row is None:
        raise NotFound(
            f"no extraction {extraction_id[:64]!a}; it does not exist, or its messages were deleted"
        )
    links = select(extraction_turns.c.memory_id).where(
        extraction_turns.c.extraction_id == extraction_id
    )
    ids = (await conn.scalars(links.order_by(extraction_turns.c.position))).all()
    found = select_memories(None).where(
        memories.c.tenant_id == tenant_id,
        memories.c.id.in_(links.scalar_subquery()),
        is_there(Moment(now)),
    )
    turns = {each.id: to_memory(each) for each in await conn.execute(found)}
    same = {
        name: getattr(row, name)
        for name in (
            *("id", "tenant_id", "state", "metadata", "facts", "dropped"),
            *("error_code", "error", "created_at", "updated_at"),
        )
    }
    scope = Scope.of(row)
    return Extraction(scope=scope, turns=tuple(turns.get(each) for each in ids), **same)


async def _settle(
    conn: AsyncConnection, extraction_id: str, now: datetime, values: dict[str, Any]
) -> None:
    change = update(extractions).where(extractions.c.id == extraction_id)
    await conn.execute(change.values(values | {"updated_at": now}))
