"""The schema comes from migrations alone, up and down, and equals what the code expects."""

import asyncio
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import Connection, inspect, text

from inferscale_sidecar.errors import ConfigError
from inferscale_sidecar.store import SqlStore, migrations
from inferscale_sidecar.store.database import Database
from inferscale_sidecar.store.schema import metadata


def _tables(connection: Connection) -> set[str]:
    return set(inspect(connection).get_table_names()) - {"alembic_version"}


def _differences(connection: Connection) -> list[Any]:
    return list(compare_metadata(MigrationContext.configure(connection), metadata))


async def test_up_gives_the_schema_of_the_code_and_down_leaves_nothing(database_url: str) -> None:
    database = Database(database_url)
    async with database.write() as conn:
        await conn.run_sync(migrations.upgrade)
    async with database.read() as conn:
        assert await conn.run_sync(_differences) == []
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
