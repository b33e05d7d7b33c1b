"""Transactions that run in their connection's thread: there as a whole, and left alone until they
have ended."""

import asyncio
import threading
from collections.abc import AsyncIterator
from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from inferscale_sidecar.store.database import Database
from inferscale_sidecar.store.sqlite_thread import ThreadConnection

COUNT = text("SELECT count(*) FROM t")
INSERT = text("INSERT INTO t VALUES (1)")
only_sqlite = pytest.mark.parametrize("backend", ["sqlite"], indirect=True)


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    made = Database(database_url)
    async with made.write() as conn:
        await conn.exec_driver_sql("CREATE TABLE t (x INTEGER)")
    yield made
    await made.close()


async def _count(conn: AsyncConnection) -> int:
    return await conn.scalar(COUNT) or 0


async def _insert(conn: AsyncConnection) -> str:
    await conn.execute(INSERT)
    return "done"


async def test_what_a_transaction_returns_and_does_comes_out_of_it(database: Database) -> None:
    assert await database.run_write(_insert) == "done"
    assert await database.run_write(_insert, is_truth=False) == "done"
    assert await database.run_read(_count) == 2


async def test_a_transaction_that_fails_is_undone_and_frees_the_writer(database: Database) -> None:
    async def fails(conn: AsyncConnection) -> None:
        await conn.execute(INSERT)
        raise KeyError("half-way")

    for _ in range(3):
        with pytest.raises(KeyError, match="half-way"):
            await database.run_write(fails)
    await database.run_write(_insert)
    assert await database.run_read(_count) == 1


async def test_it_sees_one_state_of_the_database(database: Database) -> None:
    found = []

    async def looks(conn: AsyncConnection) -> None:
        found.append(await _count(conn))
        has_looked.set()
        await asyncio.to_thread(goes_on.wait, 10) if database.is_postgres else goes_on.wait(10)
        found.append(await _count(conn))

    has_looked, goes_on = threading.Event(), threading.Event()
    looking = asyncio.create_task(database.run_read(looks))
    assert await asyncio.to_thread(has_looked.wait, 10)
    await database.run_write(_insert)
    goes_on.set()
    await looking
    assert found == [0, 0]
    assert await database.run_read(_count) == 1


@only_sqlite
async def test_all_of_it_runs_in_one_thread_that_is_not_the_loops(database: Database) -> None:
    async def where(conn: AsyncConnection) -> set[int]:
        threads = {threading.get_ident()}
        for _ in range(3):
            await conn.execute(INSERT)
            threads.add(threading.get_ident())
        return threads

    threads = await database.run_write(where)
    assert len(threads) == 1
    assert threading.get_ident() not in threads


@only_sqlite
async def test_to_await_something_else_is_an_error_and_undone(database: Database) -> None:
    async def waits(conn: AsyncConnection) -> None:
        await conn.execute(INSERT)
        await asyncio.sleep(0)

    with pytest.raises(RuntimeError, match="other than its connection"):
        await database.run_write(waits)
    await database.run_write(_insert)
    assert await database.run_read(_count) == 1


@only_sqlite
async def test_a_cancelled_transaction_keeps_its_connection_until_it_has_ended(
    database: Database,
) -> None:
    has_begun, goes_on = threading.Event(), threading.Event()

    async def stands(conn: AsyncConnection) -> None:
        await conn.execute(INSERT)
        has_begun.set()
        goes_on.wait(10)
        await conn.execute(INSERT)

    writing = asyncio.create_task(database.run_write(stands))
    assert await asyncio.to_thread(has_begun.wait, 10)
    for _ in range(3):
        writing.cancel()
        await asyncio.wait({writing}, timeout=0.02)
        assert not writing.done()
    second = asyncio.create_task(database.run_write(_insert))
    await asyncio.wait({second}, timeout=0.02)
    assert not second.done(), "the writer's place was given away"
    goes_on.set()
    with pytest.raises(asyncio.CancelledError):
        await writing
    await second
    assert await database.run_read(_count) == 3


@only_sqlite
async def test_what_is_cancelled_while_it_begins_holds_no_lock(
    database: Database, database_url: str
) -> None:
    """The thread still waits for the lock of another process, and gets it when nobody wants it."""
    await database.run_write(_insert)
    other = Database(database_url)
    async with other.write():
        waiting = asyncio.create_task(_hold(database))
        await asyncio.sleep(0.1)
        waiting.cancel()
        await asyncio.sleep(0.1)
    await asyncio.wait({waiting})
    async with asyncio.timeout(10):
        await other.run_write(_insert)
        await database.run_write(_insert)
    assert await database.run_read(_count) == 3
    await other.close()


@only_sqlite
async def test_what_was_left_open_is_undone_when_the_connection_is_given_back(
    database: Database, database_url: str
) -> None:
    await database.run_write(_insert)
    async with database.engine.connect() as conn:
        driver = (await conn.get_raw_connection()).driver_connection
        assert isinstance(driver, ThreadConnection)
        await driver.execute("BEGIN IMMEDIATE")
        await driver.execute("INSERT INTO t VALUES (2)")
    other = Database(database_url)
    async with asyncio.timeout(10):
        await other.run_write(_insert)
    assert await database.run_read(_count) == 2
    await other.close()


async def _hold(database: Database) -> None:
    async with database.write() as conn:
        await conn.execute(INSERT)
        await asyncio.sleep(10)


@only_sqlite
async def test_a_transaction_takes_one_visit_to_the_thread(database: Database) -> None:
    await database.run_read(_count)
    async with database.engine.connect() as conn:
        driver = (await conn.get_raw_connection()).driver_connection
    assert isinstance(driver, ThreadConnection)
    visits = []
    queue = driver._tx

    class Counting:
        def put_nowait(self, item: Any) -> None:
            visits.append(item)
            queue.put_nowait(item)

    driver._tx = Counting()  # type: ignore[assignment]
    await database.run_write(_insert)
    await database.run_read(_count)
    driver._tx = queue
    assert len(visits) == 2
