"""Writing memories in SQL: each call is one transaction, numbered in the tenant's commit order."""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import insert, update
from sqlalchemy.ext.asyncio import AsyncConnection

from inferscale_sidecar.core import Memory, Moment, Scope
from inferscale_sidecar.errors import Conflict
from inferscale_sidecar.limits import Limits
from inferscale_sidecar.store import block_removal, document_rows, memory_rows, quota, removal
from inferscale_sidecar.store.database import Database
from inferscale_sidecar.store.document_port import Owner
from inferscale_sidecar.store.idempotency import find_results, keep_results
from inferscale_sidecar.store.purges import purge_tails
from inferscale_sidecar.store.records import (
    SEARCHABLE,
    Added,
    Draft,
    IdempotencyKey,
    Removed,
    Vector,
)
from inferscale_sidecar.store.rows import (
    batched,
    in_scope,
    is_there,
    lock_tenants,
    next_seq,
    select_memories,
    text_digest,
    to_memory,
    vector_blob,
    version_row,
)
from inferscale_sidecar.store.schema import embeddings, memories, memory_versions
from inferscale_sidecar.store.thread_rows import threads_in
from inferscale_sidecar.store.threads import remove_threads


class SqlMemories:
    """The writing half of `MemoryPort`. `clock` gives the time in UTC."""

    _db: Database
    _clock: Callable[[], datetime]
    _limits: Limits

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

        async def work(conn: AsyncConnection) -> list[Added]:
            seq = await next_seq(conn, tenant_id)
            if idempotency:
                earlier = await find_results(conn, tenant_id, idempotency, fingerprint, now=now)
                if earlier is not None:
                    return earlier
            digests = [text_digest(draft.text) for draft in drafts]
            known = await memory_rows.known_texts(
                conn, tenant_id, scope, digests, fingerprint, seq=seq, now=now
            )
            known |= await memory_rows.keep_longer(conn, known, drafts, digests, seq=seq)
            rows = memory_rows.new_rows(
                tenant_id, scope, drafts, digests, known, metadata=metadata, seq=seq, now=now
            )
            texts = [row["text"] for row in rows.values()]
            async with quota.room(conn, tenant_id, scope.user_id, self._limits, texts=texts):
                await memory_rows.insert_rows(
                    conn, rows.values(), dict(zip(digests, drafts, strict=True))
                )
            results = memory_rows.results_of(digests, known, rows)
            if idempotency:
                await keep_results(conn, tenant_id, idempotency, results, now)
            return results

        return await self._db.run_write(work)

    async def replay(
        self, tenant_id: str, idempotency: IdempotencyKey, *, fingerprint: str | None = None
    ) -> list[Added] | None:
        now = self._clock()
        return await self._db.run_read(
            lambda conn: find_results(conn, tenant_id, idempotency, fingerprint, now=now)
        )

    async def update_memory(
        self,
        tenant_id: str,
        memory_id: str,
        *,
        text: str | None,
        vector: Vector | None,
        metadata: dict[str, Any] | None,
        keep_metadata: bool,
        expires_at: datetime | None = None,
        keep_expiry: bool = True,
        fingerprint: str | None = None,
    ) -> Memory | None:
        now = self._clock()
        query = select_memories(fingerprint).where(
            memories.c.tenant_id == tenant_id, memories.c.id == memory_id, is_there(Moment(now))
        )
        async with self._db.write() as conn:
            await lock_tenants(conn, [tenant_id])
            row = (await conn.execute(query)).one_or_none()
            if row is None:
                return None
            if row.status not in SEARCHABLE:
                raise Conflict(
                    f"memory {row.id} is {row.status}: it is kept as it was; add what is true now"
                )
            seq = await next_seq(conn, tenant_id)
            values: dict[str, Any] = {"seq": seq, "updated_at": now}
            if not keep_metadata:
                values["metadata"] = metadata
            if not keep_expiry:
                values["expires_at"] = expires_at
            if text is not None and vector is not None and text != row.text:
                async with quota.room(conn, tenant_id, None, self._limits, texts=[text]):
                    values |= await _new_version(conn, row, text, vector, seq=seq, now=now)
            await conn.execute(update(memories).where(memories.c.num == row.num).values(values))
            return to_memory((await conn.execute(query)).one())

    async def delete_memory(self, tenant_id: str, memory_id: str) -> Removed | None:
        removed = await self.delete_memories(tenant_id, [memory_id])
        return removed if removed.memories or removed.sources else None

    async def delete_memories(self, tenant_id: str, ids: Sequence[str]) -> Removed:
        total = Removed(0, 0)
        async with self._db.write() as conn:
            seq = await next_seq(conn, tenant_id)
            for some in batched(list(dict.fromkeys([*ids, *await removal.sources_of(conn, ids)]))):
                condition = (memories.c.tenant_id == tenant_id) & memories.c.id.in_(some)
                total += await removal.remove(conn, condition, seq=seq, now=self._clock())
        return total

    async def delete_scope(self, tenant_id: str, scope: Scope) -> Removed:
        condition = in_scope(tenant_id, scope)
        async with self._db.write() as conn:
            seq, now = await next_seq(conn, tenant_id), self._clock()
            removed = await removal.remove(conn, condition, seq=seq, now=now)
            removed += await block_removal.remove_scope(conn, tenant_id, scope, now)
            removed += await remove_threads(conn, tenant_id, threads_in(tenant_id, scope), now)
            if scope == Scope(scope.user_id):  # documents belong to a user, and to nothing narrower
                its = document_rows.owned(Owner(tenant_id, scope.user_id))
                removed += Removed(0, 0, documents=await document_rows.remove(conn, its))
            tails = await purge_tails(conn, tenant_id, scope, self._clock())
            return removed + Removed(0, 0, tails=tails)


async def _new_version(
    conn: AsyncConnection, row: Any, text: str, vector: Vector, *, seq: int, now: datetime
) -> dict[str, Any]:
    """Write the new version of a memory, drop the old one's KV; returns the changed columns."""
    digest = text_digest(text)
    scope = Scope.of(row)
    twins = await memory_rows.known_texts(
        conn, row.tenant_id, scope, [digest], None, seq=seq, now=now
    )
    if digest in twins:
        twin = twins[digest].id
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
    grown = len(text.encode()) - len(row.text.encode())
    await quota.count(conn, row.tenant_id, text_bytes=grown)
    return values
