"""Memories that newer ones make untrue: out of every list and search, kept in history.

Invariant: a decision holds for the version that it was made about, in the scope that it was made
in; whatever changed meanwhile stays as it is.
"""

from collections.abc import Collection, Iterable
from datetime import datetime

from sqlalchemy import insert, update
from sqlalchemy.ext.asyncio import AsyncConnection

from inferscale_sidecar.core import Memory, Moment, Scope
from inferscale_sidecar.store import removal
from inferscale_sidecar.store.records import Added, FactDraft, Target
from inferscale_sidecar.store.rows import (
    batched,
    is_searchable,
    scope_digest,
    select_memories,
    superseded_digest,
    to_memory,
)
from inferscale_sidecar.store.schema import memories, memory_versions


async def find_targets(
    conn: AsyncConnection,
    tenant_id: str,
    scope: Scope,
    ids: Collection[str],
    fingerprint: str | None,
    *,
    now: datetime,
) -> dict[str, Memory]:
    """Those of exactly this scope that are still found."""
    found: dict[str, Memory] = {}
    for some in batched(sorted(ids)):
        query = select_memories(fingerprint).where(
            memories.c.tenant_id == tenant_id,
            memories.c.scope_key == scope_digest(scope),
            is_searchable(Moment(now)),
            memories.c.id.in_(some),
        )
        found |= {row.id: to_memory(row) for row in await conn.execute(query)}
    return found


def current(target: Target | None, found: dict[str, Memory]) -> Memory | None:
    """The memory, if it still is what the decision was made about."""
    memory = found.get(target.memory_id) if target else None
    return memory if memory and target and memory.version == target.version else None


async def apply(
    conn: AsyncConnection,
    facts: Iterable[tuple[FactDraft, Added]],
    found: dict[str, Memory],
    seq: int,
    now: datetime,
) -> list[list[str]]:
    """Supersede what the facts make untrue; by fact, the ids of what it superseded."""
    done: set[str] = set()
    replaced: list[list[str]] = []
    for fact, added in facts:
        ids = []
        for target in fact.supersedes:
            old = current(target, found)
            if old is None or old.id in done or old.id == added.memory.id:
                continue
            await _supersede(conn, old, added.memory.id, seq=seq, now=now)
            done.add(old.id)
            ids.append(old.id)
        replaced.append(ids)
    return replaced


async def _supersede(
    conn: AsyncConnection, old: Memory, new_id: str, *, seq: int, now: datetime
) -> None:
    await removal.drop_own_kv(conn, old.id, now)
    values = {
        "status": "superseded",
        "superseded_by": new_id,
        "text_hash": superseded_digest(old.id),
        "seq": seq,
        "updated_at": now,
    }
    await conn.execute(update(memories).where(memories.c.id == old.id).values(values))
    event = {
        "memory_id": old.id,
        "version": old.version,
        "event": "REPLACE",
        "tenant_id": old.tenant_id,
        "text": None,
        "seq": seq,
        "created_at": now,
    }
    await conn.execute(insert(memory_versions).values(event))
