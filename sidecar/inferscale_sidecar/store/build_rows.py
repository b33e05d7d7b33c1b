"""Rows of `builds`: what the builder is at and what it failed at, in the caller's transaction."""

from collections.abc import Iterable, Sequence
from datetime import datetime

from sqlalchemy import bindparam, delete, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from inferscale_sidecar.core import BuildItem, KvItem
from inferscale_sidecar.store.rows import batched
from inferscale_sidecar.store.schema import builds, memories

MAX_ERROR_CHARS = 2_000


async def live_versions(
    conn: AsyncConnection, memory_ids: Iterable[str]
) -> dict[tuple[str, str], int]:
    """Current version by (tenant id, memory id) of those ids that are live."""
    found: dict[tuple[str, str], int] = {}
    for some in batched(sorted(set(memory_ids))):
        query = select(memories.c.tenant_id, memories.c.id, memories.c.version)
        its = memories.c.id.in_(some) & (memories.c.status == "live")
        rows = await conn.execute(query.where(its))
        found |= {(row.tenant_id, row.id): row.version for row in rows}
    return found


async def put(
    conn: AsyncConnection,
    fingerprint: str,
    items: Sequence[BuildItem],
    *,
    now: datetime,
    error: str | None,
) -> None:
    """Show live items as building, or, with an `error`, count a failure of each."""
    live = await live_versions(conn, (item.memory_id for item in items))
    values: dict[str, object] = {"state": "building", "updated_at": now}
    if error is not None:
        values |= {"state": "queued", "error": error[:MAX_ERROR_CHARS]}
    for item in items:
        if live.get((item.tenant_id, item.memory_id)) != item.version:
            continue
        row = {"memory_id": item.memory_id, "version": item.version, "fingerprint": fingerprint}
        change = update(builds).where(*(builds.c[name] == value for name, value in row.items()))
        if error is not None:
            change = change.values(failures=builds.c.failures + 1)
        if not (await conn.execute(change.values(values))).rowcount:
            first = {"failures": int(error is not None)}
            await conn.execute(insert(builds).values(row | values | first))


async def clear(conn: AsyncConnection, items: Sequence[KvItem]) -> None:
    """The builds of these versions are done."""
    names = ("memory_id", "version", "fingerprint")
    await conn.execute(
        delete(builds).where(*(builds.c[name] == bindparam(f"its_{name}") for name in names)),
        [{f"its_{name}": getattr(item, name) for name in names} for item in items],
    )


async def reset_building(conn: AsyncConnection, now: datetime) -> None:
    """After a start nothing is being built: what a crash interrupted is queued again."""
    await conn.execute(
        update(builds).where(builds.c.state == "building").values(state="queued", updated_at=now)
    )
