"""What the database layer promises on every database: snapshots, whole writes, plain causes."""

import asyncio

import pytest
from sqlalchemy import inspect, text

from inferscale_sidecar.errors import InvalidInput
from inferscale_sidecar.store import SqlStore
from inferscale_sidecar.store.database import Database


async def test_a_reader_does_not_wait_for_a_writer(database_url: str) -> None:
    database = Database(database_url)
    async with database.write() as writing:
        await writing.exec_driver_sql("CREATE TABLE t (x INTEGER)")
        async with database.read() as reading:
            assert not await reading.run_sync(lambda conn: inspect(conn).has_table("t"))
    await database.close()


async def test_a_failed_write_leaves_nothing_and_frees_the_writer(database_url: str) -> None:
    database = Database(database_url)
    with pytest.raises(RuntimeError, match="half-way"):
        async with database.write() as conn:
            await conn.exec_driver_sql("CREATE TABLE t (x INTEGER)")
            raise RuntimeError("half-way")
    async with database.write() as conn:
        await conn.exec_driver_sql("CREATE TABLE t (x INTEGER)")
    await database.close()


async def test_a_reader_sees_one_state_of_the_database(database_url: str) -> None:
    database = Database(database_url)
    async with database.write() as conn:
        await conn.exec_driver_sql("CREATE TABLE t (x INTEGER)")
    async with database.read() as reading:
        before = await reading.scalar(text("SELECT count(*) FROM t"))
        async with database.write() as writing:
            await writing.exec_driver_sql("INSERT INTO t VALUES (1)")
        assert await reading.scalar(text("SELECT count(*) FROM t")) == before == 0
    await database.close()


async def test_writers_of_one_process_do_not_starve_readers(database_url: str) -> None:
    database = Database(database_url, pool_size=2)
    async with database.write():
        waiting = asyncio.ensure_future(_write_nothing(database))
        async with asyncio.timeout(5), database.read() as reading:
            assert await reading.scalar(text("SELECT 1")) == 1
    await waiting
    await database.close()


async def _write_nothing(database: Database) -> None:
    async with database.write() as conn:
        await conn.execute(text("SELECT 1"))


@pytest.mark.parametrize("name", ["get_tenant", "list_keys"])
async def test_nul_is_refused_in_one_way(store: SqlStore, name: str) -> None:
    with pytest.raises(InvalidInput, match="NUL"):
        await getattr(store, name)("a\x00b")
