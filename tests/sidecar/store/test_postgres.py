"""What only PostgreSQL does: concurrent writers, deadlocks, time-outs, and servers that go away."""

import asyncio
import logging
from typing import Any

import numpy as np
import pytest
from sqlalchemy import select, text

from inferscale_sidecar.core import Memory, Scope
from inferscale_sidecar.errors import ConfigError, StoreUnavailable
from inferscale_sidecar.store import SqlStore, memory_rows
from inferscale_sidecar.store.database import Database
from inferscale_sidecar.store.failures import repeating
from inferscale_sidecar.store.records import Draft
from inferscale_sidecar.store.rows import lock_tenants, next_seq, text_digest
from inferscale_sidecar.store.schema import memories, tenants

from .test_handles import _composition
from .test_kv import ENGINE, _kv, _pending

pytestmark = pytest.mark.parametrize("backend", ["postgres"], indirect=True)
ALICE = Scope(user_id="alice")
TENANT = "default"
VECTOR = np.full(4, 0.5, dtype=np.float32)


async def _add(store: SqlStore, *texts: str, tenant: str = TENANT) -> list[Memory]:
    added = await store.add_memories(tenant, ALICE, [Draft(text, VECTOR) for text in texts])
    return [each.memory for each in added]


async def _change(store: SqlStore, memory: Memory, words: str) -> Memory | None:
    return await store.update_memory(
        TENANT, memory.id, text=words, vector=VECTOR, metadata=None, keep_metadata=True
    )


async def test_whoever_catches_up_misses_no_write(store: SqlStore, database_url: str) -> None:
    """Numbers are given in commit order: a reader that knows number n has seen all up to n."""
    others = [SqlStore(database_url) for _ in range(3)]
    seen: set[str] = set()

    async def follow() -> None:
        since = None
        while len(seen) < 60:
            changes = await store.changes(TENANT, ALICE, since=since)
            seen.update(row.text for row in changes.rows)
            since = changes.seq

    async def write(name: int) -> None:
        for number in range(20):
            await _add(others[name], f"{name}-{number}")

    async with asyncio.timeout(60):
        await asyncio.gather(follow(), *(write(name) for name in range(3)))
    assert seen == {f"{name}-{number}" for name in range(3) for number in range(20)}
    for other in others:
        await other.close()


async def test_changes_of_one_memory_at_once_make_one_version_each(
    store: SqlStore, database_url: str
) -> None:
    other = SqlStore(database_url)
    (memory,) = await _add(store, "zero")
    work = [_change((store, other)[n % 2], memory, f"text {n}") for n in range(12)]
    await asyncio.gather(*work)
    history = await store.history(TENANT, memory.id)
    assert [event.version for event in history] == list(range(1, 14))
    await other.close()


async def test_kv_that_was_built_while_its_memory_went_is_refused(
    store: SqlStore, database_url: str
) -> None:
    """Whichever transaction comes second sees the first: no KV of a deleted memory stays known."""
    other = SqlStore(database_url)
    for _ in range(10):
        before, item = await _add(store, "before", "item")
        kv = _kv(item, f"key of {item.id[:8]}", behind=(before,))
        vanished, _ = await asyncio.gather(
            other.put_kv_items([kv]), store.delete_memory(TENANT, before.id)
        )
        purged = await store.take_purges(ENGINE, limit=9)
        assert {each.key for each in vanished} | set(purged) == {kv.key}
        await store.finish_purges(purged)
        await store.delete_memory(TENANT, item.id)
    await other.close()


async def test_a_memory_that_becomes_visible_late_is_built(store: SqlStore) -> None:
    """Numbers of different tenants become visible in any order; no mark may pass one in flight."""
    other = (await store.create_tenant("other")).id
    async with store._db.write() as conn:  # a slow writer that has its number already
        await next_seq(conn, other)
        row = await _insert(conn, other)
        (late,) = await _add(store, "quick")
        await store.put_kv_items([_kv(late, "k")])
        assert await _pending(store) == []
        await _add(store, "quicker")
    assert await _pending(store) == [row, "quicker"]
    await store.delete_scope(other, ALICE)


async def _insert(conn: Any, tenant: str) -> str:
    draft, digest = Draft("slow", VECTOR), text_digest("slow")
    now = (await conn.execute(select(tenants.c.created_at).limit(1))).scalar_one()
    rows = memory_rows.new_rows(tenant, ALICE, [draft], [digest], {}, metadata=None, seq=1, now=now)
    await memory_rows.insert_rows(conn, rows.values(), {digest: draft})
    return draft.text


async def test_writers_of_different_tenants_do_not_wait_for_each_other(store: SqlStore) -> None:
    other = (await store.create_tenant("other")).id
    async with store._db.write() as conn:
        await lock_tenants(conn, [other])
        async with asyncio.timeout(10):
            await _add(store, "tea")
            assert await _pending(store) == ["tea"]


async def test_handles_do_not_wait_for_writers(store: SqlStore, clock: Any) -> None:
    async with store._db.write() as conn:
        await lock_tenants(conn, [TENANT])
        waiting = asyncio.ensure_future(_composition(store, clock, "one"))
        await asyncio.sleep(0.1)
        assert not waiting.done(), "adding waits"
    handle = await waiting
    async with store._db.write() as conn:
        await lock_tenants(conn, [TENANT])
        async with asyncio.timeout(10):
            assert await store.get_handle(TENANT, handle.handle) == handle
            changed = handle.__class__(**{**vars(handle), "handle": "mh_2"})
            await store.put_handle(changed)


async def test_deadlocks_are_done_again(store: SqlStore) -> None:
    """Two transactions that lock two tenants crosswise: the database ends one, both get through."""
    names = [TENANT, (await store.create_tenant("other")).id]
    rounds: list[int] = []

    @repeating
    class Crossing:
        async def cross(self, order: list[str], meet: asyncio.Event, mine: asyncio.Event) -> None:
            rounds.append(1)
            async with store._db.write() as conn:
                await lock_tenants(conn, order[:1])
                mine.set()
                await meet.wait()
                await lock_tenants(conn, order[1:])

    one, two = asyncio.Event(), asyncio.Event()
    async with asyncio.timeout(30):
        await asyncio.gather(
            Crossing().cross(names, one, two), Crossing().cross(names[::-1], two, one)
        )
    assert len(rounds) == 3


async def test_a_lock_is_not_waited_for_for_ever(store: SqlStore, database_url: str) -> None:
    other = SqlStore(database_url, statement_timeout_s=0.2)
    async with store._db.write() as conn:
        await lock_tenants(conn, [TENANT])
        with pytest.raises(StoreUnavailable, match=r"longer than store\.statement_timeout_s"):
            await _add(other, "tea")
    await _add(other, "tea")
    await other.close()


async def test_a_full_pool_is_said_so(store: SqlStore, database_url: str) -> None:
    other = SqlStore(database_url, pool_size=2, statement_timeout_s=0.2)
    async with other._db.read(), other._db.read():
        with pytest.raises(StoreUnavailable, match=r"store\.pool_size"):
            await other.list_tenants()
    assert await other.list_tenants()
    await other.close()


async def test_truth_waits_for_the_disk_and_the_rest_does_not(store: SqlStore) -> None:
    for is_truth, expected in ((True, "on"), (False, "off"), (True, "on")):
        async with store._db.write(is_truth=is_truth) as conn:
            assert await conn.scalar(text("SHOW synchronous_commit")) == expected


async def test_a_reader_cannot_write(store: SqlStore) -> None:
    with pytest.raises(StoreUnavailable, match="read-only"):
        async with store._db.read() as conn:
            await conn.execute(memories.delete())


async def test_a_connection_that_breaks_off_is_replaced(store: SqlStore, backend: Any) -> None:
    await _add(store, "tea")
    cut = (
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        f" WHERE pid <> pg_backend_pid() AND datname = '{store._db.url.database}'"
    )
    with pytest.raises(StoreUnavailable, match=r"shutting down|broke off|does not answer"):
        async with store._db.write() as conn:
            await lock_tenants(conn, [TENANT])
            await asyncio.to_thread(backend.execute, cut)
            await next_seq(conn, TENANT)
    await asyncio.to_thread(backend.execute, cut)  # those that wait in the pool
    assert len((await store.list_memories(TENANT, ALICE, limit=9)).memories) == 1


async def test_a_server_that_is_down_is_used_again_once_it_is_back(
    store: SqlStore, backend: Any, caplog: pytest.LogCaptureFixture
) -> None:
    await _add(store, "tea")
    await asyncio.to_thread(backend.stop)
    try:
        for _ in range(2):
            with (
                caplog.at_level(logging.WARNING),
                pytest.raises(StoreUnavailable, match="retry") as raised,
            ):
                await store.list_tenants()
            assert backend.folder.name not in raised.value.message, "clients need not know where"
        assert backend.folder.name in caplog.text
        fresh = SqlStore(backend.url("nothing"))
        with pytest.raises(ConfigError, match="check that the server runs"):
            await fresh.start()
        await fresh.close()
    finally:
        backend.start()  # here, not in a thread: the server ends with the thread that started it
    assert [m.text for m in (await store.list_memories(TENANT, ALICE, limit=9)).memories] == ["tea"]


async def test_a_database_that_cannot_hold_all_text_is_refused(backend: Any) -> None:
    await asyncio.to_thread(
        backend.execute,
        "CREATE DATABASE latin ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0",
    )
    store = SqlStore(backend.url("latin"))
    with pytest.raises(ConfigError, match="encoding LATIN1"):
        await store.start()
    await store.close()
    await asyncio.to_thread(backend.execute, "DROP DATABASE latin")


async def test_errors_show_neither_texts_nor_parameters(store: SqlStore) -> None:
    await _add(store, "tea")
    with pytest.raises(Exception, match="duplicate key") as raised:
        async with store._db.write() as conn:
            now = (await conn.execute(select(tenants.c.created_at).limit(1))).scalar_one()
            row = {"id": TENANT, "name": "my secret", "salt": b"", "created_at": now}
            await conn.execute(tenants.insert().values(row))
    assert "my secret" not in str(raised.value)


async def test_settings_of_the_address_win(database_url: str) -> None:
    database = Database(
        f"{database_url}&application_name=mine&options=-c%20statement_timeout%3D1234"
    )
    async with database.read() as conn:
        assert await conn.scalar(text("SHOW application_name")) == "mine"
        assert await conn.scalar(text("SHOW statement_timeout")) == "1234ms"
        assert await conn.scalar(text("SHOW timezone")) == "UTC"
    await database.close()
