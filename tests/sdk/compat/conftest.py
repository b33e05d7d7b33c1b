"""The real application on a real SQLite file, and any dialect's client in front of it.

The application lives in one event loop in a thread; blocking and awaiting clients reach it through
transports that hand requests to that loop. Each test has a tenant of its own.
"""

import asyncio
import hashlib
import threading
from collections.abc import Callable, Coroutine, Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from fastapi import APIRouter

from inferscale_sidecar.api.app import create_app
from inferscale_sidecar.api.routes.health import ReadyState
from inferscale_sidecar.compose.frame import MemoryFrame
from inferscale_sidecar.index import FlatIndex
from inferscale_sidecar.metrics import Metrics
from inferscale_sidecar.service.blocks import BlockService
from inferscale_sidecar.service.documents import DocumentService
from inferscale_sidecar.service.memory import MemoryService
from inferscale_sidecar.service.recall import RecallService
from inferscale_sidecar.service.reranking import Reranking
from inferscale_sidecar.service.search import Searcher
from inferscale_sidecar.service.tenant import TenantService
from inferscale_sidecar.service.threads import ThreadService
from inferscale_sidecar.service.transfer import TransferService
from inferscale_sidecar.store import SqlStore, sqlite_url

BASE_URL = "http://127.0.0.1:8420"
Routers = Callable[[DocumentService, TransferService], Sequence[APIRouter]]


class HashEmbedder:
    """A bag of words, each word a fixed direction: shared words mean a higher cosine."""

    name = "hash"
    dim = 32

    async def embed(self, texts: Sequence[str]) -> np.ndarray:
        return np.stack([self._one(text) for text in texts]) if texts else np.empty((0, self.dim))

    async def close(self) -> None: ...

    def _one(self, text: str) -> np.ndarray:
        total = np.zeros(self.dim)
        for word in text.casefold().split() or [text]:
            seed = hashlib.sha256(word.encode()).digest()[:8]
            total += np.random.default_rng(int.from_bytes(seed)).normal(size=self.dim)
        return (total / np.linalg.norm(total)).astype(np.float32)


class ByLength:
    """A reranker for which longer texts answer better."""

    name = "by length"

    async def score(self, query: str, texts: Sequence[str]) -> list[float]:
        return [len(text) / 1_000 for text in texts]

    async def close(self) -> None: ...


class Sidecar:
    """The application, its loop, and how clients of both kinds get there."""

    def __init__(self, path: Path, *, routers: Routers = lambda documents, transfer: ()) -> None:
        self._routers = routers
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self.run(self._start(path))

    async def _start(self, path: Path) -> None:
        self._store = SqlStore(sqlite_url(path))
        await self._store.start()
        embedder, metrics = HashEmbedder(), Metrics("test")
        reranking = Reranking(ByLength())
        searcher = Searcher(
            self._store, embedder, metrics, create_index=FlatIndex, reranking=reranking
        )
        self.tenants = TenantService(self._store, metrics)
        memory = MemoryService(self._store, embedder, searcher, metrics)
        recall = RecallService(self._store, searcher, MemoryFrame(), metrics)
        app = create_app(
            memory=memory,
            recall=recall,
            blocks=BlockService(self._store, metrics),
            threads=ThreadService(self._store, memory, recall, metrics),
            tenants=self.tenants,
            metrics=metrics,
            readiness=lambda: ReadyState(True, {}),
            extra_routers=self._routers(
                DocumentService(self._store, embedder, metrics),
                TransferService(self._store, embedder),
            ),
        )
        self.transport = httpx.ASGITransport(app, client=("127.0.0.1", 1))

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self.submit(work).result(30)

    def submit(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    async def answer(self, request: httpx.Request) -> httpx.Response:
        """The whole answer, so that it can be read outside the loop."""
        response = await self.transport.handle_async_request(request)
        body = await response.aread()
        return httpx.Response(response.status_code, headers=response.headers, content=body)

    def create_key(self, name: str, scopes: Sequence[str] = ("read", "write")) -> str:
        tenant = self.run(self.tenants.create_tenant(name))
        key = self.tenants.create_key(tenant.id, name="test", scopes=scopes)
        secret: str = self.run(key)[0]
        return secret

    def close(self) -> None:
        self.run(self._store.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()


class BlockingTransport(httpx.BaseTransport):
    def __init__(self, sidecar: Sidecar) -> None:
        self._sidecar = sidecar

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        # The SDK sends bytes, which a request of either kind can carry.
        again = httpx.Request(request.method, request.url, headers=request.headers)
        again.stream = httpx.ByteStream(request.read())
        answer: httpx.Response = self._sidecar.run(self._sidecar.answer(again))
        return answer


class AwaitingTransport(httpx.AsyncBaseTransport):
    def __init__(self, sidecar: Sidecar) -> None:
        self._sidecar = sidecar

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        return await asyncio.wrap_future(self._sidecar.submit(self._sidecar.answer(request)))


class Awaited:
    """Makes every method of either client awaitable, at any depth, so that one test serves both."""

    def __init__(self, target: Any) -> None:
        self.target = target

    def __getattr__(self, name: str) -> Any:
        return Awaited(getattr(self.target, name))

    async def __call__(self, *args: Any, **kwargs: Any) -> Any:
        result = self.target(*args, **kwargs)
        return await result if asyncio.iscoroutine(result) else result


@pytest.fixture(scope="session")
def sidecar(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sidecar]:
    sidecar = Sidecar(tmp_path_factory.mktemp("compat") / "memory.db")
    yield sidecar
    sidecar.close()


@pytest.fixture
def api_key(sidecar: Sidecar, request: pytest.FixtureRequest) -> str:
    name = hashlib.sha256(request.node.nodeid.encode()).hexdigest()[:24]
    return sidecar.create_key(name)


@pytest.fixture(params=["blocking", "awaiting"])
def kind(request: pytest.FixtureRequest) -> str:
    kind: str = request.param
    return kind


@pytest.fixture
def http_client(sidecar: Sidecar, kind: str) -> Any:
    """An HTTP client for the SDK's client of this kind."""
    if kind == "blocking":
        return httpx.Client(transport=BlockingTransport(sidecar))
    return httpx.AsyncClient(transport=AwaitingTransport(sidecar))


@pytest.fixture
def connect(kind: str) -> Callable[..., Awaited]:
    """`connect(Blocking, Awaiting, **arguments)` makes the client of this kind."""

    def create(blocking: type, awaiting: type, **arguments: Any) -> Awaited:
        return Awaited((blocking if kind == "blocking" else awaiting)(**arguments))

    return create
