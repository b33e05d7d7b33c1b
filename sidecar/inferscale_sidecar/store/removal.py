"""Taking memories away, with everything that derives from them. Set-based SQL, no loops over rows.

Invariant: after `remove` no table holds the text, the vector or a usable KV row of the memories,
nor a KV row of an item that was encoded behind one of them; their keys are queued for purge, and
their ids, by which prompts showed them.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Select, delete, func, insert, literal, or_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from inferscale_sidecar.store import quota
from inferscale_sidecar.store.columns import UtcDateTime
from inferscale_sidecar.store.purges import queue_texts
from inferscale_sidecar.store.records import Event, Removed
from inferscale_sidecar.store.rows import batched
from inferscale_sidecar.store.schema import (
    builds,
    embeddings,
    extraction_turns,
    extractions,
    handle_items,
    kv_item_contexts,
    kv_items,
    memories,
    memory_sources,
    memory_versions,
    purges,
)
from inferscale_sidecar.store.watermark import lower_water_marks


async def queue_purges(conn: AsyncConnection, doomed: ColumnElement[bool], now: datetime) -> int:
    """Drop the `kv_items` rows for which `doomed` holds, and queue their keys for the bank.

    Returns:
        How many items went.
    """
    keys = (
        select(kv_items.c.fingerprint, kv_items.c.key, literal(now, UtcDateTime))
        .where(doomed)
        .order_by(kv_items.c.id)
    )
    await conn.execute(insert(purges).from_select(["fingerprint", "key", "created_at"], keys))
    dropped = (await conn.execute(delete(kv_items).where(doomed))).rowcount
    if dropped:
        await lower_water_marks(conn)
    return dropped


async def drop_own_kv(conn: AsyncConnection, memory_id: str, now: datetime) -> int:
    """The KV of all versions of one memory; items encoded behind it keep theirs."""
    await conn.execute(delete(builds).where(builds.c.memory_id == memory_id))
    return await queue_purges(conn, kv_items.c.memory_id == memory_id, now)


async def remove(
    conn: AsyncConnection,
    condition: ColumnElement[bool],
    *,
    seq: int,
    now: datetime,
    event: Event = "DELETE",
) -> Removed:
    """Remove the memories for which `condition` (on `memories`) holds.

    Args:
        conn: in a write transaction.
        condition: includes the tenant.
        seq: change number of this write.
        now: time of the deletion.
        event: EXPIRE if they have expired; the event's time is then when they did.
    """
    victims: Select[Any] = select(memories.c.id).where(condition)
    behind = select(kv_item_contexts.c.kv_item_id).where(kv_item_contexts.c.memory_id.in_(victims))
    doomed = or_(kv_items.c.memory_id.in_(victims), kv_items.c.id.in_(behind))
    kept = (
        select(func.count()).select_from(memories).where(condition, memories.c.status == "source")
    )
    num_sources = await conn.scalar(kept) or 0
    num_kv = await queue_purges(conn, doomed, now)
    await queue_texts(conn, memories.c.id, condition, now)
    await _drop_from_extractions(conn, victims)
    links = memory_sources.c.memory_id.in_(victims) | memory_sources.c.source_id.in_(victims)
    await conn.execute(delete(memory_sources).where(links))
    counts = []
    for table in (embeddings, handle_items, builds):
        its = table.c.memory_id.in_(victims)
        counts.append((await conn.execute(delete(table).where(its))).rowcount)
    await conn.execute(
        update(memory_versions).where(memory_versions.c.memory_id.in_(victims)).values(text=None)
    )
    await conn.execute(_last_events(condition, event, seq=seq, now=now))
    await quota.discount(conn, "memories", condition)
    gone = await conn.execute(delete(memories).where(condition))
    return Removed(gone.rowcount - num_sources, num_kv, num_sources, counts[0], counts[1])


async def sources_of(conn: AsyncConnection, memory_ids: Sequence[str]) -> list[str]:
    """Ids of the messages that these memories come from and that are only kept."""
    found: list[str] = []
    for some in batched(memory_ids):
        query = (
            select(memory_sources.c.source_id)
            .join(memories, memories.c.id == memory_sources.c.source_id)
            .where(memory_sources.c.memory_id.in_(some), memories.c.status == "source")
        )
        found += (await conn.scalars(query)).all()
    return list(dict.fromkeys(found))


async def _drop_from_extractions(conn: AsyncConnection, victims: Select[Any]) -> None:
    """Messages that go leave their extraction; one that has none left goes too."""
    jobs = select(extraction_turns.c.extraction_id).where(extraction_turns.c.memory_id.in_(victims))
    touched = (await conn.scalars(jobs.distinct())).all()
    await conn.execute(delete(extraction_turns).where(extraction_turns.c.memory_id.in_(victims)))
    rest = select(extraction_turns.c.extraction_id)
    for some in batched(touched):
        empty = extractions.c.id.in_(some) & extractions.c.id.not_in(
            rest.where(extraction_turns.c.extraction_id.in_(some))
        )
        await conn.execute(delete(extractions).where(empty))


def _last_events(condition: ColumnElement[bool], event: Event, *, seq: int, now: datetime) -> Any:
    at = memories.c.expires_at if event == "EXPIRE" else literal(now, UtcDateTime)
    events = select(
        memories.c.id,
        memories.c.version,
        literal(event),
        memories.c.tenant_id,
        literal(seq),
        at,
    ).where(condition)
    return insert(memory_versions).from_select(
        ["memory_id", "version", "event", "tenant_id", "seq", "created_at"], events
    )
