"""Writing memories in SQL: each call is one transaction, numbered in the tenant's commit order."""

import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from inferscale_sidecar.core import Memory, Scope
from inferscale_sidecar.errors import Conflict
from inferscale_sidecar.store import removal
from inferscale_sidecar.store.database import Database
from inferscale_sidecar.store.idempotency import find_results, keep_results
from inferscale_sidecar.store.records import (
    Added,
    Draft,
    IdempotencyKey,
    Removed,
    Vector,
)
from inferscale_sidecar.store.rows import (
    batched,
    in_scope,
    next_seq,
    scope_digest,
    select_memories,
    text_digest,
    to_memory,
    vector_blob,
    version_row,
)
from inferscale_sidecar.store.schema import embeddings, memories, memory_versions


class SqlMemories:
    """The writing half of `MemoryPort`. `clock` gives the time in UTC."""

    _db: Database
    _clock: Callable[[], datetime]

    async def add_memories(
        self,
        tenant_id: str,
        scope: Scope,
        drafts: Sequence[Draft],
        *,
        metadata: dict[str, Any] | None = None,
        idempotency: IdempotencyKey | None = None,
        fingerprint: str | None = None,
    ) -> list[Added]:
        now = self._clock()
        async with self._db.write() as conn:
            seq = await next_seq(conn, tenant_id)
            if idempotency:
                earlier = await find_results(conn, tenant_id, idempotency, fingerprint)
                if earlier is not None:
                    return earlier
            digests = [text_digest(draft.text) for draft in drafts]
            known = await _find_texts(conn, tenant_id, scope, digests, fingerprint)
            rows = _new_rows(tenant_id, scope, drafts, digests, known, metadata, seq, now)
            await _insert_memories(conn, rows.values(), dict(zip(digests, drafts, strict=True)))
            results = _results(digests, known, rows)
            if idempotency:
                await keep_results(conn, tenant_id, idempotency, results, now)
        return results

    async def replay(
        self, tenant_id: str, idempotency: IdempotencyKey, *, fingerprint: str | None = None
    ) -> list[Added] | None:
        async with self._db.read() as conn:
            return await find_results(conn, tenant_id, idempotency, fingerprint)

    async def update_memory(
        self,
        tenant_id: str,
        memory_id: str,
        *,
        text: str | None,
        vector: Vector | None,
        metadata: dict[str, Any] | None,
        keep_metadata: bool,
        fingerprint: str | None = None,
    ) -> Memory | None:
        query = select_memories(fingerprint).where(
            memories.c.tenant_id == tenant_id, memories.c.id == memory_id
        )
        async with self._db.write() as conn:
            row = (await conn.execute(query)).one_or_none()
            if row is None:
                return None
            now, seq = self._clock(), await next_seq(conn, tenant_id)
            values: dict[str, Any] = {"seq": seq, "updated_at": now}
            if not keep_metadata:
                values["metadata"] = metadata
            if text is not None and vector is not None and text != row.text:
                values |= await _new_version(conn, row, text, vector, seq=seq, now=now)
            await conn.execute(update(memories).where(memories.c.num == row.num).values(values))
            return to_memory((await conn.execute(query)).one())

    async def delete_memory(self, tenant_id: str, memory_id: str) -> Removed | None:
        condition = (memories.c.tenant_id == tenant_id) & (memories.c.id == memory_id)
        async with self._db.write() as conn:
            seq = await next_seq(conn, tenant_id)
            removed = await removal.remove(conn, condition, seq=seq, now=self._clock())
        return removed if removed.memories else None

    async def delete_scope(self, tenant_id: str, scope: Scope) -> Removed:
        condition = in_scope(tenant_id, scope)
        async with self._db.write() as conn:
            seq = await next_seq(conn, tenant_id)
            return await removal.remove(conn, condition, seq=seq, now=self._clock())


async def _find_texts(
    conn: AsyncConnection,
    tenant_id: str,
    scope: Scope,
    digests: Sequence[str],
    fingerprint: str | None,
) -> dict[str, Memory]:
    """The memories of exactly this scope that have one of these texts, by text digest."""
    found: dict[str, Memory] = {}
    for some in batched(list(dict.fromkeys(digests))):
        query = select_memories(fingerprint).where(
            memories.c.tenant_id == tenant_id,
            memories.c.scope_key == scope_digest(scope),
            memories.c.text_hash.in_(some),
        )
        found |= {row.text_hash: to_memory(row) for row in await conn.execute(query)}
    return found


def _new_rows(
    tenant_id: str,
    scope: Scope,
    drafts: Sequence[Draft],
    digests: Sequence[str],
    known: dict[str, Memory],
    metadata: dict[str, Any] | None,
    seq: int,
    now: datetime,
) -> dict[str, dict[str, Any]]:
    """Rows for the texts that are new, each once, in the order of the drafts."""
    common = {
        "tenant_id": tenant_id,
        "user_id": scope.user_id,
        "agent_id": scope.agent_id,
        "run_id": scope.run_id,
        "owner": scope.owner,
        "scope_key": scope_digest(scope),
        "version": 1,
        "metadata": metadata,
        "seq": seq,
    }
    rows: dict[str, dict[str, Any]] = {}
    for draft, digest in zip(drafts, digests, strict=True):
        if digest in known or digest in rows:
            continue
        # A microsecond each: creation order is then also an order of times.
        created = now + timedelta(microseconds=len(rows))
        rows[digest] = common | {
            "id": str(uuid.uuid4()),
            "text": draft.text,
            "text_hash": digest,
            "role": draft.role,
            "actor_id": draft.actor_id,
            "created_at": created,
            "updated_at": created,
        }
    return rows


async def _insert_memories(
    conn: AsyncConnection, rows: Iterable[dict[str, Any]], drafts: dict[str, Draft]
) -> None:
    rows = list(rows)
    if not rows:
        return
    vectors = [
        {"memory_id": row["id"], "vector": vector_blob(drafts[row["text_hash"]].vector)}
        for row in rows
    ]
    versions = [version_row(row, "ADD", row["seq"], row["created_at"]) for row in rows]
    await conn.execute(insert(memories), rows)
    await conn.execute(insert(embeddings), vectors)
    await conn.execute(insert(memory_versions), versions)


def _results(
    digests: Sequence[str], known: dict[str, Memory], rows: dict[str, dict[str, Any]]
) -> list[Added]:
    created = {digest: _memory_of(row) for digest, row in rows.items()}
    results, seen = [], set(known)
    for digest in digests:
        memory = known.get(digest) or created[digest]
        results.append(Added(memory, "NOOP" if digest in seen else "ADD"))
        seen.add(digest)
    return results


def _memory_of(row: dict[str, Any]) -> Memory:
    ids = {name: row[name] for name in ("user_id", "agent_id", "run_id")}
    same = {field.name: row[field.name] for field in fields(Memory) if field.name in row}
    return Memory(scope=Scope(**ids), **same)


async def _new_version(
    conn: AsyncConnection, row: Any, text: str, vector: Vector, *, seq: int, now: datetime
) -> dict[str, Any]:
    """Write the new version of a memory, drop the old one's KV; returns the changed columns."""
    digest = text_digest(text)
    twin = await conn.scalar(
        select(memories.c.id).where(
            memories.c.tenant_id == row.tenant_id,
            memories.c.scope_key == row.scope_key,
            memories.c.text_hash == digest,
        )
    )
    if twin is not None:
        raise Conflict(f"memory {twin} of the same scope has this text already; delete one of them")
    values = {"text": text, "text_hash": digest, "version": row.version + 1}
    await conn.execute(
        update(embeddings)
        .where(embeddings.c.memory_id == row.id)
        .values(vector=vector_blob(vector))
    )
    changed = {"id": row.id, "tenant_id": row.tenant_id} | values
    await conn.execute(insert(memory_versions), version_row(changed, "UPDATE", seq, now))
    await removal.drop_own_kv(conn, row.id, now)
    return values
