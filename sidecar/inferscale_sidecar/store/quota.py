"""How much of the store a tenant uses and may use, in the caller's transaction.

Invariant: the counts on a tenant's row are those of its memories, and no committed write adds to a
tenant that is over a quota. Every write locks the tenant's row first (`rows.next_seq`), so this
holds against concurrent writers in other processes too.
"""

from collections.abc import AsyncIterator, Collection, Iterable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from sqlalchemy import ColumnElement, func, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from inferscale_sidecar.core import Limits
from inferscale_sidecar.errors import NotFound, QuotaExceeded, TooLarge
from inferscale_sidecar.store.columns import num_bytes
from inferscale_sidecar.store.records import Usage
from inferscale_sidecar.store.schema import memories, tenant_limits, tenants


async def own_limits(conn: AsyncConnection, tenant_id: str) -> dict[str, int]:
    """What is set for this tenant alone."""
    query = select(tenant_limits.c.name, tenant_limits.c.value)
    found = await conn.execute(query.where(tenant_limits.c.tenant_id == tenant_id))
    return {row.name: row.value for row in found}


async def limits_of(conn: AsyncConnection, tenant_id: str, defaults: Limits) -> Limits:
    """What holds for this tenant."""
    own = await own_limits(conn, tenant_id)
    return replace(defaults, **own) if own else defaults


async def count(conn: AsyncConnection, tenant_id: str, memories: int, text_bytes: int) -> None:
    """Add to what the tenant uses; negative numbers take away."""
    await conn.execute(
        update(tenants)
        .where(tenants.c.id == tenant_id)
        .values(
            num_memories=tenants.c.num_memories + memories,
            text_bytes=tenants.c.text_bytes + text_bytes,
        )
    )


async def count_rows(conn: AsyncConnection, rows: Collection[dict[str, Any]]) -> None:
    """Count rows of one tenant that are being inserted."""
    tenant_id = next(iter(rows))["tenant_id"]
    await count(conn, tenant_id, len(rows), sum(len(row["text"].encode()) for row in rows))


async def discount(conn: AsyncConnection, condition: ColumnElement[bool]) -> None:
    """Take away what the memories for which `condition` holds amount to; then delete them."""
    size = func.coalesce(func.sum(num_bytes(memories.c.text)), 0)
    query = select(memories.c.tenant_id, func.count().label("rows"), size.label("size"))
    found = await conn.execute(query.where(condition).group_by(memories.c.tenant_id))
    for row in found.all():
        await count(conn, row.tenant_id, -row.rows, -row.size)


@asynccontextmanager
async def room(
    conn: AsyncConnection,
    tenant_id: str,
    user_id: str | None,
    defaults: Limits,
    *,
    texts: Iterable[str] = (),
) -> AsyncIterator[None]:
    """Around what may add memories or text: raises if that is more than the tenant may have.

    Args:
        conn: in a write transaction, in which the tenant's row is locked.
        user_id: whose memories are added, if anyone's.
        defaults: the server's limits.
        texts: about to be written.

    Raises:
        TooLarge: one of the texts is over the limit for one memory.
        QuotaExceeded: at the end, if memories or text grew beyond a limit.
    """
    limits = await limits_of(conn, tenant_id, defaults)
    _check_texts(limits, texts)
    if not (limits.memories or limits.memories_per_user or limits.text_bytes):
        yield
        return
    before = await used(conn, tenant_id)
    yield
    after = await used(conn, tenant_id)
    if after.memories > before.memories:
        _check("memories", after.memories, limits.memories, "memories")
        if limits.memories_per_user and user_id is not None:
            its = await _used_by_user(conn, tenant_id, user_id)
            _check("memories_per_user", its, limits.memories_per_user, "memories of this user")
    if after.text_bytes > before.text_bytes:
        _check("text_bytes", after.text_bytes, limits.text_bytes, "bytes of text")


async def used(conn: AsyncConnection, tenant_id: str) -> Usage:
    """What the tenant's memories amount to. Raises NotFound."""
    query = select(tenants.c.num_memories, tenants.c.text_bytes).where(tenants.c.id == tenant_id)
    row = (await conn.execute(query)).one_or_none()
    if row is None:
        raise NotFound(f"no tenant {tenant_id!r}; it was removed, or never created")
    return Usage(row.num_memories, row.text_bytes)


async def _used_by_user(conn: AsyncConnection, tenant_id: str, user_id: str) -> int:
    its = (memories.c.tenant_id == tenant_id) & (memories.c.user_id == user_id)
    return await conn.scalar(select(func.count()).select_from(memories).where(its)) or 0


def _check_texts(limits: Limits, texts: Iterable[str]) -> None:
    most = limits.text_bytes_per_memory
    if not most:
        return
    for text in texts:
        size = len(text.encode())
        if size > most:
            raise TooLarge(
                f"a text is {size} bytes, and the tenant's limit text_bytes_per_memory is {most}; "
                "split the text, or have the limit raised with "
                "'inferscale-sidecar tenants limits'",
                code="text_too_large",
            )


def _check(limit: str, used: int, most: int, what: str) -> None:
    if most and used > most:
        raise QuotaExceeded(
            f"this would make {used} {what}, and the tenant's limit {limit} is {most}; "
            "delete what is not needed, or have the limit raised with "
            "'inferscale-sidecar tenants limits'",
            limit=limit,
            value=most,
        )
