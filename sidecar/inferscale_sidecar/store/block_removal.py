"""Taking blocks away, with everything that derives from them.

Invariant: afterwards no table holds their text, no handle names them, and the exact prefixes that
the engine keeps of them are queued for purge, and their ids, by which prompts showed them.
"""

from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Select, delete, func, insert, literal, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from inferscale_sidecar.core import Scope
from inferscale_sidecar.store import quota
from inferscale_sidecar.store.block_rows import attached_to
from inferscale_sidecar.store.block_tables import (
    block_prefixes,
    block_scopes,
    block_versions,
    blocks,
    handle_blocks,
)
from inferscale_sidecar.store.columns import UtcDateTime
from inferscale_sidecar.store.purges import queue_texts
from inferscale_sidecar.store.records import Removed
from inferscale_sidecar.store.schema import purges


async def remove_blocks(
    conn: AsyncConnection, condition: ColumnElement[bool], now: datetime
) -> Removed:
    """Remove the blocks for which `condition` (on `blocks`) holds; it includes the tenant."""
    victims: Select[Any] = select(blocks.c.id).where(condition)
    its = block_prefixes.c.block_id.in_(victims)
    keys = select(block_prefixes.c.fingerprint, block_prefixes.c.key, literal(now, UtcDateTime))
    columns = ["fingerprint", "key", "created_at"]
    await conn.execute(insert(purges).from_select(columns, keys.where(its).distinct()))
    await conn.execute(delete(block_prefixes).where(its))
    await queue_texts(conn, blocks.c.id, condition, now)
    lines = await conn.execute(delete(handle_blocks).where(handle_blocks.c.block_id.in_(victims)))
    await conn.execute(
        update(block_versions)
        .where(block_versions.c.block_id.in_(victims))
        .values(label=None, value=None, description=None)
    )
    events = select(
        blocks.c.id,
        blocks.c.version,
        literal("DELETE"),
        blocks.c.tenant_id,
        literal(now, UtcDateTime),
    ).where(condition)
    columns = ["block_id", "version", "event", "tenant_id", "created_at"]
    await conn.execute(insert(block_versions).from_select(columns, events))
    await quota.discount(conn, "blocks", condition)
    gone = await conn.execute(delete(blocks).where(condition))  # what it was attached to follows
    return Removed(0, 0, handle_items=lines.rowcount, blocks=gone.rowcount)


async def remove_scope(
    conn: AsyncConnection, tenant_id: str, scope: Scope, now: datetime
) -> Removed:
    """Remove what is attached to a scope and nowhere else; detach what is."""
    here = attached_to(tenant_id, scope)
    touched: Select[Any] = select(block_scopes.c.block_id).where(here)
    ids = (await conn.scalars(touched.distinct())).all()
    if not ids:
        return Removed(0, 0)
    # By key: of ids that are NULL, "not here" is not true in SQL.
    kept = select(block_scopes.c.block_id).where(
        block_scopes.c.block_id.in_(touched),
        block_scopes.c.scope_key.not_in(select(block_scopes.c.scope_key).where(here)),
    )
    doomed = (blocks.c.tenant_id == tenant_id) & blocks.c.id.in_(touched) & blocks.c.id.not_in(kept)
    number = await conn.scalar(select(func.count()).select_from(blocks).where(doomed)) or 0
    removed = await remove_blocks(conn, doomed, now) if number else Removed(0, 0)
    await conn.execute(delete(block_scopes).where(here))
    return removed + Removed(0, 0, detached_blocks=len(ids) - number)
