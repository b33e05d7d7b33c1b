"""Connections and transactions. The one place that knows which database is behind the store.

Invariant: in one process a single writer holds a write transaction at a time; on SQLite it takes
the file's write lock when it begins, so that no transaction fails half-way for want of it.
"""

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, event, text
from sqlalchemy.engine import make_url
from sqlalchemy.exc import DatabaseError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from inferscale_sidecar.errors import ConfigError

BUSY_TIMEOUT_S = 30.0
_WRITE = "inferscale_write"
_WAL_ATTEMPTS = 100

PRAGMAS = (
    "foreign_keys=ON",
    "secure_delete=ON",  # deleted text is overwritten, not just unlinked
    f"busy_timeout={int(BUSY_TIMEOUT_S * 1000)}",
)


def sqlite_url(path: Path) -> str:
    """URL of a SQLite file, for `Database`. Relative paths are taken from the working directory."""
    return f"sqlite+aiosqlite:///{path.expanduser().absolute()}"


class Database:
    """An async engine with `read()` and `write()` transactions.

    Args:
        url: SQLAlchemy URL with an async driver, e.g. `sqlite+aiosqlite:////data/memory.db`.

    Raises:
        ConfigError: the URL is not one, or the folder of a SQLite file cannot be made.
    """

    def __init__(self, url: str) -> None:
        self.engine = _create_engine(url)
        self._writer = asyncio.Lock()

    @asynccontextmanager
    async def read(self) -> AsyncIterator[AsyncConnection]:
        """One consistent snapshot; never waits for writers."""
        async with self.engine.connect() as conn, conn.begin():
            yield conn

    @asynccontextmanager
    async def write(self, *, is_truth: bool = True) -> AsyncIterator[AsyncConnection]:
        """A write transaction: committed at the end, rolled back if the block raises.

        Args:
            is_truth: False for what can be made again. It survives the end of the process as
                everything does, but is not forced to disk, so no reader waits for a disk.
        """
        async with self._writer, self.engine.connect() as conn:
            conn = await conn.execution_options(**{_WRITE: "FULL" if is_truth else "NORMAL"})
            async with conn.begin():
                yield conn

    async def check(self) -> None:
        """Fail early, with the cause, if the database cannot be opened.

        Raises:
            ConfigError: unreadable, locked for too long, or not a database.
        """
        try:
            async with self.read() as conn:
                await conn.execute(text("SELECT 1"))
        except DatabaseError as error:
            raise ConfigError(
                f"cannot open the database {self.engine.url.render_as_string()}: {error.orig}; "
                "check the path, its permissions and free space"
            ) from error

    async def close(self) -> None:
        """Give all connections back. The object is of no use afterwards."""
        await self.engine.dispose()


def _create_engine(url: str) -> AsyncEngine:
    parsed = make_url(url)
    if parsed.get_backend_name() != "sqlite":
        return create_async_engine(parsed, pool_pre_ping=True)
    if not parsed.database or parsed.database == ":memory:":
        raise ConfigError(
            f"database {url!r} lives in memory, where each connection sees another one; name a file"
        )
    folder = Path(parsed.database).parent
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"cannot make the database's folder {folder}: {error}") from error
    engine = create_async_engine(
        parsed, connect_args={"timeout": BUSY_TIMEOUT_S}, pool_size=8, max_overflow=24
    )
    event.listen(engine.sync_engine, "connect", _prepare_sqlite)
    event.listen(engine.sync_engine, "begin", _begin_sqlite)
    return engine


def _prepare_sqlite(connection: Any, _record: Any) -> None:
    connection.isolation_level = None  # the driver must not open transactions of its own
    cursor = connection.cursor()
    _use_wal(cursor)
    for pragma in PRAGMAS:
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()


def _use_wal(cursor: Any) -> None:
    """Of several processes that open a new file at once, one switches it to WAL.

    The others would wait for a lock that an open WAL connection never gives back: they must give
    up quickly and look again, and then find the file in WAL mode already.
    """
    cursor.execute("PRAGMA busy_timeout=20")
    for attempt in range(_WAL_ATTEMPTS):
        try:
            cursor.execute("PRAGMA journal_mode=WAL")
            return
        except sqlite3.OperationalError as error:
            if not _is_busy(error) or attempt == _WAL_ATTEMPTS - 1:
                raise


def _begin_sqlite(connection: Connection) -> None:
    synchronous = connection.get_execution_options().get(_WRITE)
    if synchronous is None:
        connection.exec_driver_sql("BEGIN")
        return
    # FULL: an acknowledged write survives a power cut, not only kill -9.
    connection.exec_driver_sql(f"PRAGMA synchronous={synchronous}")
    connection.exec_driver_sql("BEGIN IMMEDIATE")


def _is_busy(error: sqlite3.OperationalError) -> bool:
    return error.sqlite_errorcode & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
