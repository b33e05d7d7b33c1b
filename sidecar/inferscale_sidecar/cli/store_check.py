"""`doctor` on the database: can it be used, and what should an operator know. Owns IS013."""

import asyncio
from pathlib import Path

from inferscale_sidecar.cli.checks import Check
from inferscale_sidecar.config import Config
from inferscale_sidecar.errors import ConfigError, StoreUnavailable
from inferscale_sidecar.store import postgres
from inferscale_sidecar.store.address import SQLITE, parse_address, shown
from inferscale_sidecar.store.database import Database

CODE = "IS013"


def check_store(config: Config) -> Check:
    """Opens the database, but neither makes nor migrates one."""
    try:
        address = parse_address(config.store_url)
        if address.drivername == SQLITE and not Path(address.database or "").exists():
            return Check(CODE, "ok", f"database {shown(address)} is made at the first start")
        return asyncio.run(_open(config))
    except (ConfigError, StoreUnavailable) as error:
        what, _, remedy = error.message.partition("; ")
        return Check(CODE, "fail", what, remedy)


async def _open(config: Config) -> Check:
    database = Database(
        config.store_url,
        pool_size=config.store.pool_size,
        statement_timeout_s=config.store.statement_timeout_s,
    )
    try:
        await database.check()
        what = f"database {shown(database.url)}"
        if not database.is_postgres:
            return Check(CODE, "ok", what)
        async with database.read() as conn:
            version, doubts = await postgres.examine(conn, config.store.pool_size)
        what += f" (PostgreSQL {version})"
        if doubts:
            return Check(CODE, "warn", f"{what}: {doubts[0][0]}", doubts[0][1])
        return Check(CODE, "ok", what)
    finally:
        await database.close()
