"""Links between memories that come from elsewhere, in the caller's transaction."""

from collections.abc import Sequence

from sqlalchemy import insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from inferscale_sidecar.core import Memory
from inferscale_sidecar.store.rows import batched, select_memories, to_memory
from inferscale_sidecar.store.schema import memories, memory_sources
from inferscale_sidecar.store.transfer_port import Link


async def find(conn: AsyncConnection, tenant_id: str, ids: set[str]) -> dict[str, Memory]:
    """The tenant's memories with these ids."""
    found: dict[str, Memory] = {}
    for some in batched(sorted(ids)):
        query = select_memories(None).where(
            memories.c.tenant_id == tenant_id, memories.c.id.in_(some)
        )
        found |= {row.id: to_memory(row) for row in await conn.execute(query)}
    return found


async def put_sources(
    conn: AsyncConnection, links: Sequence[Link], there: dict[str, Memory]
) -> int:
    """Where memories come from, as far as that still exists; returns how many were new."""
    wanted = {
        (link.memory_id, link.target_id)
        for link in links
        if link.kind == "source" and {link.memory_id, link.target_id} <= there.keys()
    }
    query = select(memory_sources).where(
        memory_sources.c.memory_id.in_(sorted({memory_id for memory_id, _ in wanted}))
    )
    known = {(row.memory_id, row.source_id) for row in await conn.execute(query)}
    rows = [{"memory_id": m, "source_id": s} for m, s in sorted(wanted - known) if m != s]
    if rows:
        await conn.execute(insert(memory_sources), rows)
    return len(rows)


async def put_successors(
    conn: AsyncConnection, links: Sequence[Link], there: dict[str, Memory], seq: int
) -> int:
    """What made memories untrue, where that is not known yet; returns how many were new."""
    number = 0
    for link in links:
        memory = there.get(link.memory_id)
        if link.kind != "superseded_by" or memory is None or memory.superseded_by is not None:
            continue
        if memory.status == "superseded":
            change = update(memories).where(memories.c.id == memory.id)
            await conn.execute(change.values(superseded_by=link.target_id, seq=seq))
            number += 1
    return number
