"""Expiry in SQL: what has expired is nowhere, the sweep takes all of it, and nothing else."""

import asyncio
from datetime import datetime, timedelta
from typing import Any

import numpy as np
import pytest
from sqlalchemy import select

from inferscale_sidecar.core import KvItem, Memory, Moment, Scope
from inferscale_sidecar.store import SqlStore
from inferscale_sidecar.store.database import Database
from inferscale_sidecar.store.records import Draft, IdempotencyKey, Removed
from inferscale_sidecar.store.schema import metadata

ALICE = Scope(user_id="alice")
TENANT = "default"
ENGINE = "engine-1"
HALF = np.full(4, 0.5, dtype=np.float32)


async def _add(store: SqlStore, text: str, until: datetime | None, scope: Scope = ALICE) -> Memory:
    added = await store.add_memories(TENANT, scope, [Draft(text, HALF, expires_at=until)])
    return added[0].memory


def _kv(memory: Memory, *behind: Memory) -> KvItem:
    context = tuple(each.id for each in behind)
    return KvItem(memory.id, memory.version, TENANT, ENGINE, f"key {memory.id}", 3, context)


async def _texts(store: SqlStore, **at: Any) -> list[str]:
    page = await store.list_memories(TENANT, ALICE, limit=99, **at)
    assert page.total == len(page.memories)
    return [memory.text for memory in page.memories]


async def test_the_end_is_exclusive_and_the_same_for_every_reader(
    store: SqlStore, clock: Any
) -> None:
    end = clock.now + timedelta(seconds=10)
    memory = await _add(store, "tea", end)
    assert memory.expires_at == end
    before, at = Moment(end - timedelta(microseconds=1)), Moment(end)
    assert await _texts(store, at=before) == ["tea"]
    assert await _texts(store, at=at) == []
    assert await _texts(store, at=Moment(end, show_expired=True)) == ["tea"]
    for moment, there in ((before, True), (at, False)):
        assert bool(await store.get_memories(TENANT, [memory.id], at=moment)) is there
        assert bool(await store.scope_rows(TENANT, ALICE, at=moment)) is there
        changes = await store.changes(TENANT, ALICE, since=None, now=moment.now)
        assert bool(changes.rows) is there


async def test_what_has_expired_is_neither_built_nor_a_neighbour(
    store: SqlStore, clock: Any
) -> None:
    short = await _add(store, "short", clock.now + timedelta(seconds=10))
    await _add(store, "long", None)
    items = {item.text: item for item in await store.pending_builds(ENGINE, limit=9)}
    assert list(items) == ["short", "long"]
    await store.put_kv_items([_kv(short)])
    clock.advance(seconds=11)
    (item,) = await store.pending_builds(ENGINE, limit=9)
    assert item.text == "long"
    options = {"before": items["long"], "limit": 5}
    assert await store.previous_items(TENANT, item.owner, **options) == []
    assert await store.similar_items([item], limit=5) == []
    assert (await store.build_counts(TENANT, ENGINE)).queued == 1
    assert await store.live_versions(TENANT, [short.id]) == {}
    refused = [_kv(short)]
    assert await store.put_kv_items(refused) == []  # its key is in use: the sweep will purge it


async def test_kv_encoded_behind_what_has_expired_is_not_served_and_swept(
    store: SqlStore, clock: Any
) -> None:
    short = await _add(store, "short", clock.now + timedelta(seconds=10))
    behind = await _add(store, "behind", None)
    alone = await _add(store, "alone", None)
    await store.put_kv_items([_kv(short), _kv(behind, short), _kv(alone)])
    wanted = [(memory.id, 1) for memory in (short, behind, alone)]
    assert len(await store.kv_items(TENANT, ENGINE, wanted)) == 3
    clock.advance(seconds=11)
    assert set(await store.kv_items(TENANT, ENGINE, wanted)) == {(alone.id, 1)}
    assert await store.put_kv_items([_kv(behind, short)]) == []

    assert await store.drop_expired_kv(clock.now) == 2
    assert await store.drop_expired_kv(clock.now) == 0
    keys = {f"key {short.id}", f"key {behind.id}"}
    assert set(await store.take_purges(ENGINE, limit=9)) == keys
    assert [item.text for item in await store.pending_builds(ENGINE, limit=9)] == ["behind"]
    assert await store.put_kv_items([_kv(behind)]) == []
    assert await store.sweep_expired(clock.now, limit=9) == Removed(1, 0, embeddings=1)


async def _everything(url: str) -> str:
    database = Database(url)
    async with database.read() as conn:
        rows = [(await conn.execute(select(table))).all() for table in metadata.sorted_tables]
    await database.close()
    return str(rows)


async def test_the_sweep_leaves_no_trace_of_the_text(
    store: SqlStore, clock: Any, database_url: str
) -> None:
    memory = await _add(store, "a secret word", clock.now + timedelta(seconds=10))
    await store.update_memory(
        TENANT, memory.id, text="a hidden word", vector=HALF, metadata=None, keep_metadata=True
    )
    await _add(store, "a public word", None)
    clock.advance(seconds=20)
    assert (await store.sweep_expired(clock.now, limit=9)).memories == 1
    dump = await _everything(database_url)
    assert "secret" not in dump and "hidden" not in dump and "public" in dump


async def test_history_reads_the_same_before_and_after_the_sweep(
    store: SqlStore, clock: Any
) -> None:
    end = clock.now + timedelta(seconds=10)
    memory = await _add(store, "tea", end)
    assert [event.text for event in await store.history(TENANT, memory.id)] == ["tea"]
    clock.advance(seconds=20)
    before = await store.history(TENANT, memory.id)
    await store.sweep_expired(clock.now, limit=9)
    assert await store.history(TENANT, memory.id) == before
    assert [(event.event, event.text) for event in before] == [("ADD", None), ("EXPIRE", None)]
    assert before[-1].created_at == end


async def test_batches_are_bounded_and_other_tenants_are_swept_too(
    store: SqlStore, clock: Any
) -> None:
    other = (await store.create_tenant("other")).id
    end = clock.now + timedelta(seconds=10)
    for i in range(5):
        await _add(store, f"tea {i}", end)
    await store.add_memories(other, ALICE, [Draft("tea", HALF, expires_at=end)])
    await _add(store, "stays", end + timedelta(seconds=20))
    clock.advance(seconds=15)
    counts = [(await store.sweep_expired(clock.now, limit=4)).memories for _ in range(3)]
    assert counts == [4, 2, 0]
    assert await _texts(store) == ["stays"]
    assert await store.history(other, "nope") == []


async def test_several_sweeps_at_once_remove_each_memory_once(
    store: SqlStore, database_url: str, clock: Any
) -> None:
    end = clock.now + timedelta(seconds=10)
    for i in range(20):
        await _add(store, f"tea {i}", end)
    await _add(store, "stays", None)
    stores = [store, *(SqlStore(database_url, clock=clock) for _ in range(3))]
    clock.advance(seconds=15)
    swept = await asyncio.gather(*(each.sweep_expired(clock.now, limit=500) for each in stores))
    assert sum(removed.memories for removed in swept) == 20
    assert await _texts(store) == ["stays"]
    for each in stores[1:]:
        await each.close()


@pytest.mark.parametrize(
    ("first", "again", "kept"), [(10, 20, 20), (20, 10, 20), (10, None, None), (None, 10, None)]
)
async def test_adding_again_never_shortens_a_life(
    store: SqlStore, clock: Any, first: int | None, again: int | None, kept: int | None
) -> None:
    start = clock.now

    def end(seconds: int | None) -> datetime | None:
        return None if seconds is None else start + timedelta(seconds=seconds)

    memory = await _add(store, "tea", end(first))
    seen = (await store.changes(TENANT, ALICE, since=None)).seq
    added = await store.add_memories(TENANT, ALICE, [Draft("tea", HALF, expires_at=end(again))])
    assert (added[0].event, added[0].memory.id) == ("NOOP", memory.id)
    assert added[0].memory.expires_at == end(kept)
    now = await store.get_memories(TENANT, [memory.id])
    assert now[memory.id].expires_at == end(kept)
    changed = await store.changes(TENANT, ALICE, since=seen)
    assert [row.expires_at for row in changed.rows] == ([end(kept)] if kept != first else [])


async def test_text_that_has_expired_can_be_added_again(store: SqlStore, clock: Any) -> None:
    old = await _add(store, "tea", clock.now + timedelta(seconds=10))
    other = await _add(store, "milk", None)
    clock.advance(seconds=20)
    new = await _add(store, "tea", None)
    assert new.id != old.id
    assert [e.event for e in await store.history(TENANT, old.id)] == ["ADD", "EXPIRE"]
    await store.delete_memory(TENANT, new.id)
    await _add(store, "tea", clock.now + timedelta(seconds=10))
    clock.advance(seconds=20)
    changed = await store.update_memory(
        TENANT, other.id, text="tea", vector=HALF, metadata=None, keep_metadata=True
    )
    assert changed is not None and changed.text == "tea"


async def test_what_has_expired_cannot_be_changed_but_deleted(store: SqlStore, clock: Any) -> None:
    memory = await _add(store, "tea", clock.now + timedelta(seconds=10))
    clock.advance(seconds=20)
    assert (
        await store.update_memory(
            TENANT, memory.id, text=None, vector=None, metadata={}, keep_metadata=False
        )
        is None
    )
    removed = await store.delete_memory(TENANT, memory.id)
    assert removed is not None and removed.memories == 1


async def test_a_repeated_answer_holds_no_expired_text(store: SqlStore, clock: Any) -> None:
    draft = Draft("tea", HALF, expires_at=clock.now + timedelta(seconds=10))
    key = IdempotencyKey("k", "digest")
    await store.add_memories(TENANT, ALICE, [draft], idempotency=key)
    clock.advance(seconds=20)
    again = await store.add_memories(TENANT, ALICE, [draft], idempotency=key)
    assert [added.memory.text for added in again] == [""]
    assert await _texts(store, at=Moment(clock.now, show_expired=True)) == ["tea"]
