"""What memories that come from elsewhere meet here, in the caller's transaction. Reads only."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, select, union
from sqlalchemy.ext.asyncio import AsyncConnection

from inferscale_sidecar.core import Moment
from inferscale_sidecar.store.rows import batched, is_there
from inferscale_sidecar.store.schema import memories, memory_versions


async def foreign_ids(conn: AsyncConnection, tenant_id: str, ids: Sequence[str]) -> set[str]:
    """Those of these ids that another tenant has, or had."""
    found: set[str] = set()
    for some in batched(ids):
        live = select(memories.c.id).where(
            memories.c.id.in_(some), memories.c.tenant_id != tenant_id
        )
        past = select(memory_versions.c.memory_id).where(
            memory_versions.c.memory_id.in_(some), memory_versions.c.tenant_id != tenant_id
        )
        found |= set(await conn.scalars(union(live, past)))
    return found


async def known_rows(
    conn: AsyncConnection, tenant_id: str, ids: Sequence[str], now: datetime
) -> tuple[dict[str, dict[str, Any]], set[str]]:
    """The tenant's rows with these ids, and the ids that it has deleted."""
    there, expired = is_there(Moment(now)), memories.c.expires_at <= now
    rows: dict[str, dict[str, Any]] = {}
    gone: set[str] = set()
    for some in batched(ids):
        its = (memories.c.tenant_id == tenant_id) & memories.c.id.in_(some)
        those = await conn.execute(select(memories).where(its, there))
        rows |= {row.id: row._asdict() for row in those}
        gone |= set(await conn.scalars(select(memories.c.id).where(its, expired)))
        deleted = select(memory_versions.c.memory_id).where(
            memory_versions.c.memory_id.in_(some), memory_versions.c.event.in_(("DELETE", "EXPIRE"))
        )
        gone |= set(await conn.scalars(deleted))
    return rows, gone


async def places(
    conn: AsyncConnection,
    tenant_id: str,
    rows: Sequence[dict[str, Any]],
    condition: ColumnElement[bool],
) -> dict[tuple[str, str], str]:
    """Ids of the memories that stand in the places (scope, text) of these rows."""
    found: dict[tuple[str, str], str] = {}
    for some in batched(rows, 100):
        # Two lists instead of pairs: pairs are not looked up in the index by SQLite, and as a long
        # condition they take longer to compile than to run.
        query = select(memories.c.scope_key, memories.c.text_hash, memories.c.id).where(
            memories.c.tenant_id == tenant_id,
            memories.c.scope_key.in_({row["scope_key"] for row in some}),
            memories.c.text_hash.in_({row["text_hash"] for row in some}),
            condition,
        )
        found |= {(key, digest): i for key, digest, i in await conn.execute(query)}
    return found
