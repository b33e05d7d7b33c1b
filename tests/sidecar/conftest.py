"""A memory service on a real database, with an embedder that needs no model."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

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
from inferscale_sidecar.service.threads import ThreadService
from inferscale_sidecar.store import SqlStore

from .databases import Backend, PostgresServer, SqliteFiles, running_postgres
from .service.fakes import Clock, HashEmbedder, ListFrame

FINGERPRINT = "engine-1"


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
    threads: ThreadService
    tenants: TenantService
    tenant: Tenant
    other: Tenant
    writes: list[None]
    documents: DocumentService


@pytest.fixture
def clock() -> Clock:
    return Clock()


def _migrate(url: str) -> None:
    async def migrate() -> None:
        store = SqlStore(url)
        await store.start()
        await store.close()

    with ThreadPoolExecutor(1) as pool:  # there may be a loop in this thread
        pool.submit(asyncio.run, migrate()).result()


@pytest.fixture(scope="session")
def sqlite_backend(tmp_path_factory: pytest.TempPathFactory) -> SqliteFiles:
    return SqliteFiles(tmp_path_factory.mktemp("sqlite"), _migrate)


@pytest.fixture(scope="session")
def postgres_backend() -> Iterator[PostgresServer]:
    with running_postgres(_migrate) as server:
        yield server


@pytest.fixture
def backend(request: pytest.FixtureRequest) -> Backend:
    """The kind of database: SQLite, unless a test or a folder is parametrised with others."""
    found: Backend = request.getfixturevalue(f"{getattr(request, 'param', 'sqlite')}_backend")
    return found


@pytest.fixture
def database_url(request: pytest.FixtureRequest, backend: Backend) -> Iterator[str]:
    """An empty database, without tables unless the test asks for a `store` in it."""
    url = backend.create(with_tables="store" in request.fixturenames)
    yield url
    backend.drop(url)


@pytest.fixture
async def store(database_url: str, clock: Clock) -> AsyncIterator[SqlStore]:
    """A started store in `database_url`."""
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
            store,
            embedder,
            metrics,
            create_index=FlatIndex,
            fingerprint=lambda: FINGERPRINT,
            clock=clock,
        )
        memory = MemoryService(
            store,
            embedder,
            searcher,
            metrics,
            on_write=lambda: writes.append(None),
            fingerprint=lambda: FINGERPRINT,
            clock=clock,
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
        threads = ThreadService(store, memory, recall, metrics)
        tenants = TenantService(store, metrics)
        return World(
            *(store, embedder, metrics, clock, memory, recall, blocks, threads),
            *(tenants, tenant, other, writes),
            documents=DocumentService(store, embedder, metrics, clock=clock),
        )

    return create


@pytest.fixture
async def world(store: SqlStore, create_world: Callable[[Tenant, Tenant], World]) -> World:
    tenant = await store.get_tenant("default")
    assert tenant is not None
    return create_world(tenant, await store.create_tenant("other"))
