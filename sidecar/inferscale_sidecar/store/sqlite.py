"""SQLite: how its files are opened, and which locks its transactions take.

Invariant: a writing transaction takes the file's write lock when it begins, so that none fails
half-way for want of it.
"""

import sqlite3
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, event
from sqlalchemy.engine import URL
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
from sqlalchemy.pool import PoolResetState

from inferscale_sidecar.errors import ConfigError
from inferscale_sidecar.store.sqlite_thread import ThreadConnection

BUSY_TIMEOUT_S = 30.0
WRITE_OPTION = "inferscale_write"
"""Execution option of a connection that is to write: its `PRAGMA synchronous`."""
_WAL_ATTEMPTS = 100

PRAGMAS = (
    "foreign_keys=ON",
    "secure_delete=ON",  # deleted text is overwritten, not just unlinked
    f"busy_timeout={int(BUSY_TIMEOUT_S * 1000)}",
)


def sqlite_url(path: Path) -> str:
    """URL of a SQLite file, for `Database`. Relative paths are taken from the working directory."""
    return f"sqlite+aiosqlite:///{path.expanduser().absolute()}"


def create_sqlite(url: URL) -> AsyncEngine:
    """An engine for a file; its folder is made.

    Raises:
        ConfigError: the database would be in memory, or the folder cannot be made.
    """
    if not url.database or url.database == ":memory:":
        raise ConfigError(
            f"database {str(url)!r} lives in memory, where each connection sees another one; "
            "name a file",
            param="store.url",
        )
    folder = Path(url.database).parent
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"cannot make the database's folder {folder}: {error}") from error
    engine = create_async_engine(
        url,
        connect_args={"timeout": BUSY_TIMEOUT_S, "async_creator_fn": ThreadConnection},
        pool_size=8,
        max_overflow=24,
        pool_reset_on_return=None,  # by `_reset`
        hide_parameters=True,  # they are people's memories; errors end in logs
    )
    event.listen(engine.sync_engine, "connect", _prepare)
    event.listen(engine.sync_engine, "begin", _begin)
    event.listen(engine.sync_engine, "reset", _reset)
    return engine


def _prepare(connection: Any, _record: Any) -> None:
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


def _begin(connection: Connection) -> None:
    synchronous = connection.get_execution_options().get(WRITE_OPTION)
    if synchronous is None:
        connection.exec_driver_sql("BEGIN")
        return
    # FULL: an acknowledged write survives a power cut, not only kill -9.
    connection.exec_driver_sql(f"PRAGMA synchronous={synchronous}")
    connection.exec_driver_sql("BEGIN IMMEDIATE")


def _reset(connection: Any, record: Any, state: PoolResetState) -> None:
    """Undo what a use of the connection left open, without a look at it where nothing can be."""
    is_open = state.asyncio_safe and not state.transaction_was_reset
    if is_open and not record.driver_connection.is_settled:
        connection.rollback()


def _is_busy(error: sqlite3.OperationalError) -> bool:
    return error.sqlite_errorcode & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
