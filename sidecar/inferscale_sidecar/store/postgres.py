"""PostgreSQL: how connections are opened, what a transaction sees, and the lock of migrations.

Writers run at READ COMMITTED and lock their tenant's row before they read (`rows.lock_tenants`):
whoever has the lock sees all that was committed before. Readers get one snapshot, and no lock.
"""

from typing import Any

from sqlalchemy import Connection, event, text
from sqlalchemy.engine import URL
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from inferscale_sidecar.errors import ConfigError
from inferscale_sidecar.store.address import shown

MIN_VERSION = 13
UNSYNCED_OPTION = "inferscale_unsynced"
"""Execution option of a connection whose next commit need not wait for the disk."""
_MIGRATION_LOCK = 0x1F5CA1E
_SNAPSHOT = {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True}
# A server that is gone without a word must be noticed: in seconds at connect, in a minute later.
_CONNECT: dict[str, Any] = {
    "connect_timeout": 5,
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
    "application_name": "inferscale-sidecar",
}


def create_postgres(url: URL, *, pool_size: int, statement_timeout_s: float) -> AsyncEngine:
    """An engine with at most `pool_size` connections, whose sessions are set as we need them."""
    options = {
        "default_transaction_isolation": r"read\ committed",
        "idle_in_transaction_session_timeout": 600_000,
        "statement_timeout": int(statement_timeout_s * 1000),
        "timezone": "UTC",
    }
    given = url.query.get("options", "")
    ours = " ".join(f"-c {name}={value}" for name, value in options.items())
    connect = {name: value for name, value in _CONNECT.items() if name not in url.query}
    engine = create_async_engine(
        url.difference_update_query(["options"]),
        connect_args=connect | {"options": f"{ours} {given}".strip()},
        pool_size=pool_size,
        max_overflow=0,
        pool_timeout=statement_timeout_s,
        pool_pre_ping=True,  # the server may have been restarted since
        hide_parameters=True,  # they are people's memories; errors end in logs
    )
    event.listen(engine.sync_engine, "begin", _begin)
    return engine


async def use_snapshot(conn: AsyncConnection) -> AsyncConnection:
    """Make the connection's next transaction read one consistent state of the database."""
    return await conn.execution_options(**_SNAPSHOT)


def _begin(connection: Connection) -> None:
    if connection.get_execution_options().get(UNSYNCED_OPTION):
        connection.exec_driver_sql("SET LOCAL synchronous_commit = off")


async def check_server(conn: AsyncConnection, url: URL) -> None:
    """Raises ConfigError if the server is too old, or its database cannot hold all text."""
    encoding = await conn.scalar(text("SHOW server_encoding"))
    version = int(await conn.scalar(text("SHOW server_version_num")) or 0) // 10_000
    if version < MIN_VERSION:
        raise ConfigError(
            f"the database {shown(url)} is PostgreSQL {version}; {MIN_VERSION} or newer is needed"
        )
    if encoding != "UTF8":
        raise ConfigError(
            f"the database {shown(url)} has the encoding {encoding}, which cannot hold all text; "
            "create it with: CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0"
        )


async def lock_schema(conn: AsyncConnection) -> None:
    """Until the transaction ends no other sidecar migrates; a migration may take its time."""
    await conn.execute(text("SET LOCAL statement_timeout = 0"))
    await conn.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _MIGRATION_LOCK})


async def examine(conn: AsyncConnection, pool_size: int) -> tuple[str, list[tuple[str, str]]]:
    """The server's version, and what an operator should know: pairs of a doubt and its remedy."""
    query = text("SELECT name, setting FROM pg_settings")
    settings = {row.name: row.setting for row in await conn.execute(query)}
    is_new = await conn.scalar(text("SELECT to_regclass('alembic_version') IS NULL"))
    may = text("SELECT coalesce(has_schema_privilege(current_schema(), 'CREATE'), false)")
    room = int(settings["max_connections"]) - int(settings["superuser_reserved_connections"])
    doubts = []
    if not await conn.scalar(may):
        what = "has no tables and this user may not make any" if is_new else "cannot be migrated"
        doubts.append((what, "GRANT USAGE, CREATE ON SCHEMA public to the user of store.url"))
    for name in ("fsync", "full_page_writes", "synchronous_commit"):
        if settings[name] == "off":
            doubts.append((f"{name} is off: a power cut loses memories", f"set {name} = on"))
    if pool_size > room:
        what = f"allows {room} connections, store.pool_size is {pool_size}"
        doubts.append((what, "lower store.pool_size or raise max_connections"))
    return settings["server_version"].partition(" ")[0], doubts
