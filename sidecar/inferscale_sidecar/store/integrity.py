"""The store's invariants as queries. Each finds the rows that break one; all should be empty."""

from typing import Any

from sqlalchemy import ColumnElement, Select, and_, func, literal, or_, select
from sqlalchemy.ext.asyncio import AsyncConnection

from inferscale_sidecar.store.block_tables import block_versions, blocks
from inferscale_sidecar.store.quota import KINDS, rows_of
from inferscale_sidecar.store.schema import (
    embeddings,
    kv_item_contexts,
    kv_items,
    memories,
    memory_sources,
    memory_versions,
    tenants,
)


def _checks() -> dict[str, Select[Any]]:
    live = select(memories.c.id)
    current = select(memories.c.id).where(
        memories.c.id == kv_items.c.memory_id, memories.c.version == kv_items.c.version
    )
    newest = and_(
        memory_versions.c.memory_id == memories.c.id,
        memory_versions.c.version == memories.c.version,
        memory_versions.c.text == memories.c.text,
    )
    return {
        "tenants that use another number of rows or bytes than is counted": _miscounted(),
        "memories without an embedding": select(memories.c.id).where(
            memories.c.id.not_in(select(embeddings.c.memory_id))
        ),
        "embeddings without a memory": select(embeddings.c.memory_id).where(
            embeddings.c.memory_id.not_in(live)
        ),
        "memories whose text is not in their history": select(memories.c.id).where(
            ~select(memory_versions.c.memory_id).where(newest).exists()
        ),
        "deleted memories whose text is left in the history": select(
            memory_versions.c.memory_id
        ).where(memory_versions.c.memory_id.not_in(live), memory_versions.c.text.is_not(None)),
        "sources of a memory that is gone": select(memory_sources.c.memory_id).where(
            memory_sources.c.memory_id.not_in(live) | memory_sources.c.source_id.not_in(live)
        ),
        "KV items of a version that is not current": select(kv_items.c.memory_id).where(
            ~current.exists()
        ),
        **_block_checks(),
        "KV items encoded behind a memory that is gone": select(
            kv_item_contexts.c.kv_item_id
        ).where(kv_item_contexts.c.memory_id.not_in(live)),
    }


def _miscounted() -> Select[Any]:
    """Tenants whose row does not tell what their other rows amount to."""
    wrong = []
    size: ColumnElement[int] = literal(0)
    for kind in KINDS:
        rows = rows_of(kind).subquery()
        its = rows.c.tenant_id == tenants.c.id
        number = select(func.count()).select_from(rows).where(its)
        wrong.append(tenants.c[f"num_{kind}"] != number.scalar_subquery())
        total = select(func.coalesce(func.sum(rows.c.size), 0)).where(its)
        size += total.scalar_subquery()
    return select(tenants.c.id).where(or_(*wrong, tenants.c.text_bytes != size))


def _block_checks() -> dict[str, Select[Any]]:
    live = select(blocks.c.id)
    newest = and_(
        block_versions.c.block_id == blocks.c.id,
        block_versions.c.version == blocks.c.version,
        block_versions.c.value == blocks.c.value,
    )
    return {
        "blocks whose value is not in their history": select(blocks.c.id).where(
            ~select(block_versions.c.block_id).where(newest).exists()
        ),
        "deleted blocks whose value is left in the history": select(
            block_versions.c.block_id
        ).where(block_versions.c.block_id.not_in(live), block_versions.c.value.is_not(None)),
    }


async def find_violations(conn: AsyncConnection) -> list[str]:
    """One sentence per broken invariant, with the number of rows."""
    found = []
    for what, query in _checks().items():
        number = await conn.scalar(select(func.count()).select_from(query.subquery()))
        if number:
            found.append(f"{number} {what}")
    return found
