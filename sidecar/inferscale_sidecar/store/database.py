"""Connections and transactions, the same on every database.

Invariant: a writing transaction is committed as a whole at its end, or undone. On SQLite one
process has one writer at a time. On PostgreSQL writers leave half of the connections to readers,
and whoever needs to be alone with a tenant locks its row. What a request waits for is written as a
function for `run_read` or `run_write`, which spare it SQLite's changes of threads.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from sqlalchemy import text
from sqlalchemy.exc import DatabaseError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from inferscale_sidecar.errors import ConfigError
from inferscale_sidecar.store import postgres, sqlite
from inferscale_sidecar.store.address import POSTGRES, parse_address, shown
from inferscale_sidecar.store.failures import translated
from inferscale_sidecar.store.sqlite_thread import run_in_thread

T = TypeVar("T")
Work = Callable[[AsyncConnection], Coroutine[Any, Any, T]]
"""What one transaction does. It awaits nothing but its connection."""

DEFAULT_POOL_SIZE = 16
DEFAULT_STATEMENT_TIMEOUT_S = 30.0


class Database:
    """An async engine with `read()` and `write()` transactions.

    Args:
        url: as for `parse_address`.
        pool_size: PostgreSQL: most connections of this process.
        statement_timeout_s: PostgreSQL: how long a statement may take, waiting for locks included.

    Raises:
        ConfigError: the URL is not one, or the folder of a SQLite file cannot be made.
    """

    def __init__(
        self,
        url: str,
        *,
        pool_size: int = DEFAULT_POOL_SIZE,
        statement_timeout_s: float = DEFAULT_STATEMENT_TIMEOUT_S,
    ) -> None:
        self.url = parse_address(url)
        self.is_postgres = self.url.drivername == POSTGRES
        self.engine: AsyncEngine
        if self.is_postgres:
            self.engine = postgres.create_postgres(
                self.url, pool_size=pool_size, statement_timeout_s=statement_timeout_s
            )
        else:
            self.engine = sqlite.create_sqlite(self.url)
        self._writers = asyncio.Semaphore(max(1, pool_size // 2) if self.is_postgres else 1)

    @asynccontextmanager
    async def read(self) -> AsyncIterator[AsyncConnection]:
        """One consistent snapshot; never waits for writers.

        Raises:
            StoreUnavailable: the database does not answer. So does `write`.
        """
        with translated():
            async with self.engine.connect() as conn:
                if self.is_postgres:
                    conn = await postgres.use_snapshot(conn)
                async with conn.begin():
                    yield conn

    @asynccontextmanager
    async def write(self, *, is_truth: bool = True) -> AsyncIterator[AsyncConnection]:
        """A write transaction: committed at the end, rolled back if the block raises.

        Args:
            is_truth: False for what can be made again. It survives the end of the process as
                everything does, but is not forced to disk, so no reader waits for a disk.
        """
        with translated():
            async with self._writers, self.engine.connect() as conn:
                conn = await conn.execution_options(**_writing(is_truth))
                async with _committed(conn):
                    yield conn

    async def run_read(self, work: Work[T]) -> T:
        """`work` in a `read()`, without coming back to the event loop in between if on SQLite."""
        if self.is_postgres:
            async with self.read() as conn:
                return await work(conn)
        with translated():
            async with self.engine.connect() as conn:
                return await run_in_thread(conn, _begun(conn, work))

    async def run_write(self, work: Work[T], *, is_truth: bool = True) -> T:
        """`work` in a `write()`, without coming back to the event loop in between if on SQLite."""
        if self.is_postgres:
            async with self.write(is_truth=is_truth) as conn:
                return await work(conn)
        with translated():
            async with self._writers, self.engine.connect() as conn:
                conn = await conn.execution_options(**_writing(is_truth))
                return await run_in_thread(conn, _begun(conn, work))

    async def check(self) -> None:
        """Fail early, with the cause, if the database cannot be opened or used.

        Raises:
            ConfigError: unreachable, unreadable, locked for too long, or not a fit database.
        """
        try:
            async with self.engine.connect() as conn:
                await conn.execute(text("SELECT 1"))
                if self.is_postgres:
                    await postgres.check_server(conn, self.url)
        except DatabaseError as error:
            cause = str(error.orig).strip().partition("\n")[0]
            remedy = "check the path, its permissions and free space"
            if self.is_postgres:
                remedy = "check that the server runs, and store.url with its user and password"
            raise ConfigError(
                f"cannot open the database {shown(self.url)}: {cause}; {remedy}"
            ) from error

    async def lock_schema(self, conn: AsyncConnection) -> None:
        """Wait for other processes that migrate. SQLite's writers have the file to themselves."""
        if self.is_postgres:
            await postgres.lock_schema(conn)

    async def close(self) -> None:
        """Give all connections back. The object is of no use afterwards."""
        await self.engine.dispose()


def _writing(is_truth: bool) -> dict[str, Any]:
    """Execution options of a connection that is to write."""
    return {
        sqlite.WRITE_OPTION: "FULL" if is_truth else "NORMAL",
        postgres.UNSYNCED_OPTION: not is_truth,
    }


@asynccontextmanager
async def _committed(conn: AsyncConnection) -> AsyncIterator[None]:
    transaction = await conn.begin()
    try:
        yield
    except BaseException:
        await transaction.rollback()
        raise
    with translated(committing=True):
        await transaction.commit()


async def _begun(conn: AsyncConnection, work: Work[T]) -> T:
    async with _committed(conn):
        return await work(conn)
