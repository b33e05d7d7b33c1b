"""KV items and the build queue in SQL."""

from collections.abc import AsyncIterator, Callable, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import delete, func, insert, select
from sqlalchemy.ext.asyncio import AsyncConnection

from inferscale_sidecar.core import BuildItem, KvItem, Moment
from inferscale_sidecar.store import build_rows
from inferscale_sidecar.store.database import Database
from inferscale_sidecar.store.expiry import has_expired_part
from inferscale_sidecar.store.records import MAX_FAILURES, BuildCounts
from inferscale_sidecar.store.removal import queue_purges
from inferscale_sidecar.store.rows import (
    BATCH,
    batched,
    has_state,
    is_there,
    lock_tenants,
    with_state,
)
from inferscale_sidecar.store.schema import (
    builds,
    kv_item_contexts,
    kv_items,
    memories,
)
from inferscale_sidecar.store.watermark import WaterMarks, lower_water_marks

_BUILD_COLUMNS = (
    memories.c.id,
    memories.c.version,
    memories.c.tenant_id,
    memories.c.owner,
    memories.c.text,
)


class SqlKv:
    """Implements `KvPort`."""

    _db: Database
    _clock: Callable[[], datetime]
    _built_before: WaterMarks

    def _still_there(self) -> Any:
        return is_there(Moment(self._clock()))

    async def pending_builds(self, fingerprint: str, *, limit: int) -> list[BuildItem]:
        async with self._db.read() as conn:
            mark = await self._built_before.get(conn, fingerprint)
            query = (
                with_state(select(memories.c.num, *_BUILD_COLUMNS), fingerprint)
                .where(memories.c.num >= mark.num)
                .where(kv_items.c.id.is_(None), memories.c.status == "live", self._still_there())
                .where(func.coalesce(builds.c.failures, 0) <= MAX_FAILURES)
                .order_by(memories.c.num)
                .limit(limit)
            )
            rows = (await conn.execute(query)).all()
        first = rows[0].num if rows else None
        self._built_before.raise_to(first, fingerprint, seen=mark)
        lists: dict[tuple[str, str], list[BuildItem]] = {}
        for _, *columns in rows:
            item = BuildItem(*columns)
            lists.setdefault((item.tenant_id, item.owner), []).append(item)
        return [item for items in lists.values() for item in items]

    async def mark_building(self, fingerprint: str, items: Sequence[BuildItem]) -> None:
        async with self._db.write(is_truth=False) as conn:
            await build_rows.put(conn, fingerprint, items, now=self._clock(), error=None)

    async def mark_failed(
        self, fingerprint: str, items: Sequence[BuildItem], error: str, *, counts: bool = True
    ) -> None:
        now = self._clock()
        async with self._db.write(is_truth=False) as conn:
            await build_rows.put(conn, fingerprint, items, now=now, error=error, counts=counts)

    async def put_kv_items(self, items: Sequence[KvItem]) -> list[KvItem]:
        async with self._db.write() as conn:
            await lock_tenants(conn, (item.tenant_id for item in items))
            live = await build_rows.live_versions(
                conn,
                {i for item in items for i in (item.memory_id, *item.context_ids)},
                self._clock(),
            )
            good = [item for item in items if _is_current(item, live)]
            if good:
                await self._put(conn, good)
            stale = [item for item in items if not _is_current(item, live)]
            # A key that a live item shares must stay in the bank.
            return [item for item in stale if not await _is_used(conn, item)]

    async def _put(self, conn: AsyncConnection, items: Sequence[KvItem]) -> None:
        await self._drop_earlier(conn, items)
        rows = [{c.name: getattr(i, c.name) for c in kv_items.c if c.name != "id"} for i in items]
        added = insert(kv_items).returning(kv_items.c.id, sort_by_parameter_order=True)
        numbers = (await conn.scalars(added, rows)).all()
        contexts = [
            {"kv_item_id": number, "memory_id": memory_id}
            for number, item in zip(numbers, items, strict=True)
            for memory_id in dict.fromkeys(item.context_ids)
        ]
        if contexts:
            await conn.execute(insert(kv_item_contexts), contexts)
        await build_rows.clear(conn, items)

    async def _drop_earlier(self, conn: AsyncConnection, items: Sequence[KvItem]) -> None:
        """The KV that these memories have on the same engine already; its key is to be purged."""
        wanted = {(item.memory_id, item.fingerprint) for item in items}
        for some in batched(sorted({memory_id for memory_id, _ in wanted})):
            found = await conn.execute(select(kv_items).where(kv_items.c.memory_id.in_(some)))
            doomed = [row.id for row in found if (row.memory_id, row.fingerprint) in wanted]
            if doomed:
                await queue_purges(conn, kv_items.c.id.in_(doomed), self._clock())

    async def previous_items(
        self, tenant_id: str, owner: str, *, before: BuildItem, limit: int
    ) -> list[BuildItem]:
        at = select(memories.c.num).where(
            memories.c.tenant_id == tenant_id, memories.c.id == before.memory_id
        )
        query = (
            select(*_BUILD_COLUMNS)
            .where(memories.c.tenant_id == tenant_id, memories.c.owner == owner)
            .where(memories.c.num < at.scalar_subquery(), memories.c.status == "live")
            .where(self._still_there())
            .order_by(memories.c.num.desc())
            .limit(limit)
        )
        async with self._db.read() as conn:
            newest_first = [BuildItem(*row) for row in await conn.execute(query)]
        return newest_first[::-1]

    async def kv_items(
        self, tenant_id: str, fingerprint: str, versions: Sequence[tuple[str, int]]
    ) -> dict[tuple[str, int], KvItem]:
        wanted, now = set(versions), self._clock()
        found: dict[tuple[str, int], KvItem] = {}
        async with self._db.read() as conn:
            for some in batched(sorted({memory_id for memory_id, _ in wanted})):
                condition = (
                    (kv_items.c.tenant_id == tenant_id)
                    & (kv_items.c.fingerprint == fingerprint)
                    & kv_items.c.memory_id.in_(some)
                    & ~has_expired_part(now)
                )
                contexts = await _contexts(conn, condition)
                for row in await conn.execute(select(kv_items).where(condition)):
                    if (row.memory_id, row.version) in wanted:
                        item = _to_kv_item(row, contexts.get(row.id, ()))
                        found[item.memory_id, item.version] = item
        return found

    async def forget_kv(self, fingerprint: str, keys: Sequence[str]) -> None:
        async with self._db.write() as conn:
            for some in batched(keys):
                await conn.execute(
                    delete(kv_items).where(
                        kv_items.c.fingerprint == fingerprint, kv_items.c.key.in_(some)
                    )
                )
            await lower_water_marks(conn)

    async def all_keys(self, fingerprint: str) -> AsyncIterator[list[str]]:
        last = ""
        while True:
            query = (
                select(kv_items.c.key)
                .distinct()
                .where(kv_items.c.fingerprint == fingerprint, kv_items.c.key > last)
                .order_by(kv_items.c.key)
                .limit(BATCH)
            )
            async with self._db.read() as conn:
                keys = list((await conn.scalars(query)).all())
            if not keys:
                return
            yield keys
            last = keys[-1]

    async def build_counts(self, tenant_id: str, fingerprint: str | None) -> BuildCounts:
        state = has_state(fingerprint).label("state")
        columns: list[Any] = [state, func.count()]
        query = with_state(select(*columns), fingerprint).where(
            memories.c.tenant_id == tenant_id, memories.c.status == "live", self._still_there()
        )
        async with self._db.read() as conn:
            rows = (await conn.execute(query.group_by(state))).all()
        return BuildCounts(**{name: number for name, number in rows})


def _is_current(item: KvItem, live: dict[tuple[str, str], int]) -> bool:
    """Still the memory's version, and everything that it was encoded behind still exists."""
    return live.get((item.tenant_id, item.memory_id)) == item.version and all(
        (item.tenant_id, memory_id) in live for memory_id in item.context_ids
    )


async def _is_used(conn: AsyncConnection, item: KvItem) -> bool:
    query = select(kv_items.c.id).where(
        kv_items.c.fingerprint == item.fingerprint, kv_items.c.key == item.key
    )
    return await conn.scalar(query.limit(1)) is not None


async def _contexts(conn: AsyncConnection, condition: Any) -> dict[int, list[str]]:
    """Memory ids that the KV items of `condition` were encoded behind, by KV item."""
    query = (
        select(kv_item_contexts.c.kv_item_id, kv_item_contexts.c.memory_id)
        .join(kv_items, kv_items.c.id == kv_item_contexts.c.kv_item_id)
        .where(condition)
        .order_by(kv_item_contexts.c.kv_item_id, kv_item_contexts.c.memory_id)
    )
    found: dict[int, list[str]] = {}
    for number, memory_id in await conn.execute(query):
        found.setdefault(number, []).append(memory_id)
    return found


def _to_kv_item(row: Any, context_ids: Sequence[str]) -> KvItem:
    same = (row.memory_id, row.version, row.tenant_id, row.fingerprint, row.key, row.num_tokens)
    return KvItem(*same, tuple(context_ids))
