"""Rows of `builds`: what the builder is at and what it failed at, in the caller's transaction."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import bindparam, delete, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from inferscale_sidecar.core import BuildItem, KvItem, Moment
from inferscale_sidecar.store.rows import batched, insert_or, is_there, lock_tenants
from inferscale_sidecar.store.schema import builds, memories

MAX_ERROR_CHARS = 2_000


async def live_versions(
    conn: AsyncConnection, memory_ids: Iterable[str], now: datetime
) -> dict[tuple[str, str], int]:
    """Current version by (tenant id, memory id) of those ids that are live."""
    found: dict[tuple[str, str], int] = {}
    for some in batched(sorted(set(memory_ids))):
        query = select(memories.c.tenant_id, memories.c.id, memories.c.version)
        its = memories.c.id.in_(some) & (memories.c.status == "live") & is_there(Moment(now))
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
    counts: bool = True,
) -> None:
    """Show live items as building, or, with an `error`, note it and count a failure of each."""
    await lock_tenants(conn, (item.tenant_id for item in items))
    live = await live_versions(conn, (item.memory_id for item in items), now)
    failures = int(error is not None and counts)
    values: dict[str, object] = {"state": "building", "updated_at": now, "fingerprint": fingerprint}
    if error is not None:
        values |= {"state": "queued", "error": error[:MAX_ERROR_CHARS], "failures": failures}
    current = [i for i in items if live.get((i.tenant_id, i.memory_id)) == i.version]
    rows = [values | {"memory_id": i.memory_id, "version": i.version} for i in current]
    if not rows:
        return
    new = insert_or(conn, builds)
    change: dict[str, Any] = {name: new.excluded[name] for name in ("state", "updated_at")}
    if error is not None:
        change |= {"error": new.excluded.error, "failures": builds.c.failures + failures}
    key = list(builds.primary_key)
    await conn.execute(new.on_conflict_do_update(index_elements=key, set_=change), rows)


async def clear(conn: AsyncConnection, items: Sequence[KvItem]) -> None:
    """The builds of these versions are done."""
    names = ("memory_id", "version", "fingerprint")
    await conn.execute(
        delete(builds).where(*(builds.c[name] == bindparam(f"its_{name}") for name in names)),
        [{f"its_{name}": getattr(item, name) for name in names} for item in items],
    )


async def reset_building(conn: AsyncConnection, fingerprint: str, now: datetime) -> None:
    """At the first contact nothing is being built: what a crash interrupted is queued again."""
    its = (builds.c.fingerprint == fingerprint) & (builds.c.state == "building")
    await conn.execute(update(builds).where(its).values(state="queued", updated_at=now))
