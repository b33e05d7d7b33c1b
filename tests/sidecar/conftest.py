"""A memory service on a real SQLite file, with an embedder that needs no model."""

import asyncio
import shutil
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from inferscale_sidecar.core import Tenant
from inferscale_sidecar.index import FlatIndex
from inferscale_sidecar.metrics import Metrics
from inferscale_sidecar.service.blocks import BlockService
from inferscale_sidecar.service.documents import DocumentService
from inferscale_sidecar.service.memory import MemoryService
from inferscale_sidecar.service.recall import RecallService
from inferscale_sidecar.service.search import Searcher
from inferscale_sidecar.service.tenant import TenantService
from inferscale_sidecar.store import SqlStore, sqlite_url

from .service.fakes import HashEmbedder, ListFrame

FINGERPRINT = "engine-1"


class Clock:
    """A clock that moves when it is told to, and a little with each look."""

    def __init__(self) -> None:
        self.now = datetime(2026, 1, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        self.now += timedelta(milliseconds=1)
        return self.now

    def advance(self, **delta: float) -> None:
        self.now += timedelta(**delta)


@dataclass
class World:
    """All services of one sidecar, and two tenants."""

    store: SqlStore
    embedder: HashEmbedder
    metrics: Metrics
    clock: Clock
    memory: MemoryService
    recall: RecallService
    blocks: BlockService
    tenants: TenantService
    tenant: Tenant
    other: Tenant
    writes: list[None]
    documents: DocumentService


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def database_url(tmp_path: Path) -> str:
    return sqlite_url(tmp_path / "memory.db")


@pytest.fixture(scope="session")
def migrated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty database with the schema: copying it is faster than migrating for each test."""
    path = tmp_path_factory.mktemp("migrated") / "memory.db"

    async def migrate() -> None:
        store = SqlStore(sqlite_url(path))
        await store.start()
        await store.close()

    asyncio.run(migrate())
    return path


@pytest.fixture
async def store(
    database_url: str, tmp_path: Path, migrated: Path, clock: Clock
) -> AsyncIterator[SqlStore]:
    shutil.copyfile(migrated, tmp_path / "memory.db")
    store = SqlStore(database_url, clock=clock)
    await store.start()
    yield store
    assert await store.check_integrity() == []
    await store.close()


@pytest.fixture
def create_world(store: SqlStore, clock: Clock) -> Callable[[Tenant, Tenant], World]:
    def create(tenant: Tenant, other: Tenant) -> World:
        embedder, metrics, writes = HashEmbedder(), Metrics("test"), []
        searcher = Searcher(
            store, embedder, metrics, create_index=FlatIndex, fingerprint=lambda: FINGERPRINT
        )
        memory = MemoryService(
            store,
            embedder,
            searcher,
            metrics,
            on_write=lambda: writes.append(None),
            fingerprint=lambda: FINGERPRINT,
        )
        recall = RecallService(
            store,
            searcher,
            ListFrame(),
            metrics,
            fingerprint=lambda: FINGERPRINT,
            count_tokens=lambda text: len(text.split()),
            clock=clock,
        )
        blocks = BlockService(store, metrics, on_write=lambda: writes.append(None))
        tenants = TenantService(store, metrics)
        return World(
            *(store, embedder, metrics, clock, memory, recall, blocks),
            *(tenants, tenant, other, writes),
            documents=DocumentService(store, embedder, metrics, clock=clock),
        )

    return create


@pytest.fixture
async def world(store: SqlStore, create_world: Callable[[Tenant, Tenant], World]) -> World:
    tenant = await store.get_tenant("default")
    assert tenant is not None
    return create_world(tenant, await store.create_tenant("other"))
