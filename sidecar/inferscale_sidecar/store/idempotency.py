"""First results of writes that carry an idempotency key. Ids and events only: text is deletable."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from sqlalchemy import bindparam, insert, select
from sqlalchemy.ext.asyncio import AsyncConnection

from inferscale_sidecar.core import Memory, Moment, Scope
from inferscale_sidecar.errors import Conflict
from inferscale_sidecar.store.records import Added, IdempotencyKey
from inferscale_sidecar.store.rows import batched, is_there, select_memories, to_memory
from inferscale_sidecar.store.schema import idempotency, memories, memory_versions

_KEEP = insert(idempotency)
_FIND = select(idempotency).where(
    idempotency.c.tenant_id == bindparam("tenant"), idempotency.c.key == bindparam("its_key")
)


async def keep_results(
    conn: AsyncConnection,
    tenant_id: str,
    request: IdempotencyKey,
    results: Sequence[Added],
    now: datetime,
) -> None:
    """Remember what this request did, in the transaction that does it."""
    row = {
        "tenant_id": tenant_id,
        "key": request.key,
        "request_hash": request.request_hash,
        "result": [[added.memory.id, added.event] for added in results],
        "created_at": now,
    }
    await conn.execute(_KEEP, row)


async def find_results(
    conn: AsyncConnection,
    tenant_id: str,
    request: IdempotencyKey,
    fingerprint: str | None,
    *,
    now: datetime,
) -> list[Added] | None:
    """The results kept for this key; None if it is new.

    Raises:
        Conflict: the key was used for another request.
    """
    found = await conn.execute(_FIND, {"tenant": tenant_id, "its_key": request.key})
    row = found.one_or_none()
    if row is None:
        return None
    if row.request_hash != request.request_hash:
        raise Conflict(
            "this Idempotency-Key was already used for another request; use a new key for each "
            "distinct request",
            code="idempotency_key_reused",
        )
    ids = [memory_id for memory_id, _ in row.result]
    live = await _first_versions(conn, tenant_id, ids, fingerprint, Moment(now))
    shown = [live.get(i) or _deleted(tenant_id, i, row.created_at) for i in ids]
    return [
        Added(memory, event, "extracted" if memory.kind == "fact" else "stored")
        for memory, (_, event) in zip(shown, row.result, strict=True)
    ]


async def _first_versions(
    conn: AsyncConnection, tenant_id: str, ids: Sequence[str], fingerprint: str | None, at: Moment
) -> dict[str, Memory]:
    """The live ones of these memories, with the text that they were added with."""
    found: dict[str, Memory] = {}
    for some in batched(ids):
        query = (
            select_memories(fingerprint)
            .add_columns(memory_versions.c.text.label("first_text"))
            .join(
                memory_versions,
                (memory_versions.c.memory_id == memories.c.id) & (memory_versions.c.event == "ADD"),
            )
            .where(memories.c.tenant_id == tenant_id, memories.c.id.in_(some))
            .where(is_there(at))
        )
        for row in await conn.execute(query):
            found[row.id] = replace(to_memory(row), text=row.first_text)
    return found


def _deleted(tenant_id: str, memory_id: str, at: datetime) -> Memory:
    return Memory(memory_id, tenant_id, Scope(), "", 0, at, at, kv_state="off")
