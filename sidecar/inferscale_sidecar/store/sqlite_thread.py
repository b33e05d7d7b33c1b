"""A SQLite connection in whose thread a whole transaction can run.

Owns that thread's side of aiosqlite. Each call there costs the event loop two changes of threads,
and SQLAlchemy makes three calls for a statement: a transaction of a dozen statements waits longer
for threads than for SQLite. Invariant: nobody else uses a connection while a transaction runs in
its thread, not even to give it back after a cancellation.
"""

import asyncio
import sqlite3
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, TypeVar

import aiosqlite
from sqlalchemy.ext.asyncio import AsyncConnection

T = TypeVar("T")
_ROWS_AT_ONCE = 64  # aiosqlite's own


class ThreadConnection(aiosqlite.Connection):
    """Runs what is called from its own thread at once, and queues the rest as aiosqlite does.

    Args:
        database, options: as for `sqlite3.connect`.

    Attributes:
        is_settled: the last that it did was a transaction in its thread, which has ended. Anything
            else may have been cancelled half-way, and may even begin a transaction afterwards.
    """

    def __init__(self, database: str, **options: Any) -> None:
        self._home: int | None = None
        self.is_settled = False

        def connect() -> sqlite3.Connection:
            self._home = threading.get_ident()
            made: sqlite3.Connection = sqlite3.connect(database, **options)
            return made

        super().__init__(connect, _ROWS_AT_ONCE)
        self._thread.daemon = True

    async def _execute(self, fn: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        if threading.get_ident() == self._home:
            return fn(*args, **kwargs)
        self.is_settled = False
        found: T = await super()._execute(fn, *args, **kwargs)  # type: ignore[no-untyped-call]
        return found


async def run_in_thread(conn: AsyncConnection, work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that awaits nothing but `conn` in the thread of that connection.

    A cancellation is obeyed when it has ended: what it did stays done.

    Raises:
        RuntimeError: it awaited something else.
    """
    driver = (await conn.get_raw_connection()).driver_connection
    assert isinstance(driver, ThreadConnection)
    running = asyncio.ensure_future(driver._execute(_settled, driver, work))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        while not running.done():
            with suppress(asyncio.CancelledError):
                await asyncio.wait({running})
        if not running.cancelled():
            running.exception()  # seen: nobody is left who could be told
        raise


def _settled(driver: ThreadConnection, work: Coroutine[Any, Any, T]) -> T:
    try:
        return _drive(work)
    finally:
        driver.is_settled = not driver.in_transaction


def _drive(work: Coroutine[Any, Any, T]) -> T:
    try:
        work.send(None)
    except StopIteration as stop:
        found: T = stop.value
        return found
    work.close()
    raise RuntimeError("a transaction awaited something other than its connection")
