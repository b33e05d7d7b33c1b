"""`SqlStore`: the store on an SQL database. Owns its life cycle; the parts are in their modules."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import insert, select

from inferscale_sidecar.config import Config
from inferscale_sidecar.errors import ConfigError
from inferscale_sidecar.limits import NO_LIMITS, Limits
from inferscale_sidecar.store import migrations
from inferscale_sidecar.store.arrivals import SqlArrivals
from inferscale_sidecar.store.banks import SqlBanks
from inferscale_sidecar.store.blocks import SqlBlocks
from inferscale_sidecar.store.database import Database
from inferscale_sidecar.store.document_arrivals import SqlDocumentArrivals
from inferscale_sidecar.store.documents import SqlDocuments
from inferscale_sidecar.store.entities import SqlEntities
from inferscale_sidecar.store.expiry import SqlExpiry
from inferscale_sidecar.store.extractions import SqlExtractions
from inferscale_sidecar.store.failures import repeating
from inferscale_sidecar.store.handles import SqlHandles
from inferscale_sidecar.store.integrity import find_violations
from inferscale_sidecar.store.kv import SqlKv
from inferscale_sidecar.store.limits import SqlLimits
from inferscale_sidecar.store.memories import SqlMemories
from inferscale_sidecar.store.neighbours import SqlNeighbours
from inferscale_sidecar.store.purges import SqlPurges
from inferscale_sidecar.store.reads import SqlReads
from inferscale_sidecar.store.records import DEFAULT_TENANT
from inferscale_sidecar.store.rows import insert_or
from inferscale_sidecar.store.schema import meta, tenants
from inferscale_sidecar.store.snapshot import SqlSnapshots
from inferscale_sidecar.store.summaries import SqlSummaries
from inferscale_sidecar.store.tenants import SqlTenants, new_tenant
from inferscale_sidecar.store.thread_arrivals import SqlThreadArrivals
from inferscale_sidecar.store.threads import SqlThreads
from inferscale_sidecar.store.watermark import WaterMarks

_EMBEDDER = select(meta.c.value).where(meta.c.key == "embedder")


def utc_now() -> datetime:
    """The time, aware."""
    return datetime.now(UTC)


@repeating
class SqlStore(
    SqlMemories,
    SqlReads,
    SqlEntities,
    SqlExtractions,
    SqlExpiry,
    SqlKv,
    SqlBanks,
    SqlPurges,
    SqlNeighbours,
    SqlBlocks,
    SqlThreads,
    SqlSummaries,
    SqlHandles,
    SqlDocuments,
    SqlTenants,
    SqlLimits,
    SqlSnapshots,
    SqlArrivals,
    SqlThreadArrivals,
    SqlDocumentArrivals,
):
    """Implements `MemoryStore`.

    Args:
        url: as for `Database`; see `sqlite_url` for a file.
        clock: aware UTC time; tests pass their own.
        limits: what each tenant may use, unless other limits are set for it.
        database: more settings of `Database`.

    Raises:
        ConfigError: the URL is unusable.
    """

    def __init__(
        self,
        url: str,
        *,
        clock: Callable[[], datetime] = utc_now,
        limits: Limits = NO_LIMITS,
        **database: Any,
    ) -> None:
        self._db = Database(url, **database)
        self._clock = clock
        self._limits = limits
        self._built_before = WaterMarks()

    @classmethod
    def of(cls, config: Config) -> "SqlStore":
        """The store that the settings name."""
        return cls(
            config.store_url,
            limits=Limits(**config.limits.model_dump()),
            pool_size=config.store.pool_size,
            statement_timeout_s=config.store.statement_timeout_s,
        )

    async def start(self) -> None:
        await self._db.check()
        async with self._db.write() as conn:
            await self._db.lock_schema(conn)
            await conn.run_sync(migrations.upgrade)
            now = self._clock()
            known = await conn.scalar(select(tenants.c.id).where(tenants.c.id == DEFAULT_TENANT))
            if known is None:
                row = new_tenant(DEFAULT_TENANT, DEFAULT_TENANT, now)
                await conn.execute(insert(tenants).values(row))

    async def bind_embedder(self, name: str, dim: int) -> None:
        wanted = f"{name} ({dim} dimensions)"
        async with self._db.write() as conn:
            new = insert_or(conn, meta).values(key="embedder", value=wanted)
            await conn.execute(new.on_conflict_do_nothing())
            stored = await conn.scalar(_EMBEDDER)
        if stored != wanted:
            raise ConfigError(
                f"the stored memories were embedded with {stored}, but the embedder in use is "
                f"{wanted}; their vectors cannot be compared. Configure the embedder that they "
                "were written with, or use another data folder"
            )

    async def bound_embedder(self) -> str | None:
        async with self._db.read() as conn:
            return await conn.scalar(_EMBEDDER)

    async def check_integrity(self) -> list[str]:
        async with self._db.read() as conn:
            return await find_violations(conn)

    async def close(self) -> None:
        await self._db.close()
