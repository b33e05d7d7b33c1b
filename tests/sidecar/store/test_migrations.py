"""The schema comes from migrations alone, up and down, and equals what the code expects."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import Connection, inspect, text

from inferscale_sidecar.core import Composition, CompositionItem, KvItem, Scope, Tail
from inferscale_sidecar.errors import ConfigError
from inferscale_sidecar.store import SqlStore, migrations
from inferscale_sidecar.store.database import Database
from inferscale_sidecar.store.records import Draft
from inferscale_sidecar.store.schema import metadata

_TIME = "%Y-%m-%d %H:%M:%S.%f"


def _tables(connection: Connection) -> set[str]:
    return set(inspect(connection).get_table_names()) - {"alembic_version"}


def differences(connection: Connection) -> list[Any]:
    return list(compare_metadata(MigrationContext.configure(connection), metadata))


async def test_up_gives_the_schema_of_the_code_and_down_leaves_nothing(database_url: str) -> None:
    database = Database(database_url)
    async with database.write() as conn:
        await conn.run_sync(migrations.upgrade)
    async with database.read() as conn:
        assert await conn.run_sync(differences) == []
        assert await conn.run_sync(_tables) == set(metadata.tables)
    async with database.write() as conn:
        await conn.run_sync(migrations.downgrade, "base")
    async with database.read() as conn:
        assert await conn.run_sync(_tables) == set()
    async with database.write() as conn:
        await conn.run_sync(migrations.upgrade)
        assert await conn.run_sync(_tables) == set(metadata.tables)
    await database.close()


async def test_start_again_changes_nothing(database_url: str) -> None:
    first = SqlStore(database_url)
    await first.start()
    tenant = await first.get_tenant("default")
    await first.close()
    second = SqlStore(database_url)
    await second.start()
    assert await second.get_tenant("default") == tenant
    await second.close()


async def test_two_sidecars_start_on_one_new_file(database_url: str) -> None:
    stores = [SqlStore(database_url) for _ in range(4)]
    await asyncio.gather(*(store.start() for store in stores))
    tenants = [await store.get_tenant("default") for store in stores]
    assert tenants[0] is not None
    assert all(tenant == tenants[0] for tenant in tenants)
    for store in stores:
        await store.close()


async def test_a_database_of_a_newer_release_is_refused(database_url: str) -> None:
    database = Database(database_url)
    async with database.write() as conn:
        await conn.run_sync(migrations.upgrade)
        await conn.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    await database.close()
    store = SqlStore(database_url)
    with pytest.raises(ConfigError, match="newer release"):
        await store.start()
    await store.close()


def test_a_database_in_memory_is_refused() -> None:
    with pytest.raises(ConfigError, match="name a file"):
        SqlStore("sqlite+aiosqlite://")


async def test_another_embedder_is_refused_with_both_names(store: SqlStore) -> None:
    await store.bind_embedder("small", 384)
    await store.bind_embedder("small", 384)
    with pytest.raises(ConfigError, match=r"small \(384 .*large \(1024 "):
        await store.bind_embedder("large", 1024)


async def test_expiry_goes_down_without_bringing_back_what_has_expired(store: SqlStore) -> None:
    half, year = np.full(4, 0.5, dtype=np.float32), timedelta(days=365)
    past, future = datetime.now(UTC) - year, datetime.now(UTC) + year
    ends = {"gone": past, "later": future, "ever": None}
    drafts = [Draft(text, half, expires_at=end) for text, end in ends.items()]
    added = await store.add_memories("default", Scope(user_id="a"), drafts)
    gone, later, ever = (each.memory for each in added)
    await store.put_kv_items(
        [
            KvItem(later.id, 1, "default", "engine", "k1", 3, (ever.id,)),
            KvItem(ever.id, 1, "default", "engine", "k2", 3, (later.id,)),
        ]
    )
    database = store._db
    async with database.write() as conn:
        await conn.execute(
            text("UPDATE kv_item_contexts SET memory_id = :gone WHERE memory_id = :later"),
            {"gone": gone.id, "later": later.id},
        )
        await conn.run_sync(migrations.downgrade, "0006")
        texts = (await conn.execute(text("SELECT text FROM memories ORDER BY num"))).scalars()
        assert list(texts) == ["later", "ever"]
        keys = (await conn.execute(text("SELECT key FROM kv_items"))).scalars()
        assert list(keys) == ["k1"]
        purged = (await conn.execute(text("SELECT key FROM purges"))).scalars()
        assert list(purged) == ["k2"]
        await conn.run_sync(migrations.upgrade)
        assert await conn.run_sync(differences) == []


async def test_tails_of_before_their_scopes_were_kept_are_due(store: SqlStore, clock: Any) -> None:
    now = datetime.now(UTC)
    clock.now = now
    async with store._db.write() as conn:
        await conn.run_sync(migrations.downgrade, "0014")
        for key, due in (("later", now + timedelta(hours=1)), ("now", now - timedelta(hours=1))):
            await conn.execute(
                text("INSERT INTO purges (fingerprint, key, created_at) VALUES ('e', :key, :due)"),
                {"key": key, "due": due if conn.dialect.name == "postgresql" else f"{due:{_TIME}}"},
            )
        await conn.run_sync(migrations.upgrade)
        assert await conn.run_sync(differences) == []
    clock.advance(seconds=60)
    assert set(await store.take_purges("e", limit=9)) == {"later", "now"}
    await store.purge_later("e", ["new"], "default", Tail(Scope("a"), clock(), 3600))
    async with store._db.write() as conn:
        await conn.run_sync(migrations.downgrade, "0014")
        keys = await conn.execute(text("SELECT key FROM purges ORDER BY id"))
        assert list(keys.scalars()) == ["later", "now", "new"]
        await conn.run_sync(migrations.upgrade)
        assert await conn.run_sync(differences) == []
    assert "new" in await store.take_purges("e", limit=9)


async def test_handles_of_the_past_do_not_go_down(store: SqlStore) -> None:
    half, now = np.full(4, 0.5, dtype=np.float32), datetime.now(UTC)
    (added,) = await store.add_memories("default", Scope(user_id="a"), [Draft("tea", half)])
    item = CompositionItem(added.memory.id, 1, "tea", 1.0)
    for name, as_of in (("mh_now", None), ("mh_then", now)):
        scope, end = Scope(user_id="a"), now + timedelta(days=999)
        await store.put_handle(Composition(name, "default", scope, (item,), now, end, as_of=as_of))
    job = await store.open_extraction("default", Scope(user_id="a"), [Draft("hi", half)])
    await store.finish_extraction("default", job.id, [])
    database = store._db
    async with database.write() as conn:
        await conn.run_sync(migrations.downgrade, "0009")
        assert list((await conn.execute(text("SELECT id FROM handles"))).scalars()) == ["mh_now"]
        lines = await conn.execute(text("SELECT handle_id FROM handle_items"))
        assert list(lines.scalars()) == ["mh_now"]
        events = await conn.execute(text("SELECT DISTINCT event FROM memory_versions"))
        assert list(events.scalars()) == ["ADD"]
        await conn.run_sync(migrations.upgrade)
        assert await conn.run_sync(differences) == []
