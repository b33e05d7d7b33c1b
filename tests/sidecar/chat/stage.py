"""A sidecar that can only chat: real services, routes, tokenizer; fake engine and store."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from fastapi import FastAPI
from starlette.requests import Request
from tests.sidecar.build.fake_store import TENANTS, FakeStore
from tests.sidecar.engine.demo import demo_lists
from tests.sidecar.engine.fake_engine import FakeEngine

from inferscale.protocol.chat import Position
from inferscale.protocol.memory import Message
from inferscale_sidecar.api import problem
from inferscale_sidecar.api.routes.chat import chat_router
from inferscale_sidecar.api.routes.passthrough import passthrough_router
from inferscale_sidecar.build.exact import LazyExactness
from inferscale_sidecar.build.prefix import PrefixWarmer
from inferscale_sidecar.build.prefix_finder import PrefixFinder
from inferscale_sidecar.build.queue import BuildQueue
from inferscale_sidecar.core import Composition, CompositionItem, PinnedBlock, Scope, Tenant
from inferscale_sidecar.engine.client import EngineClient
from inferscale_sidecar.errors import NotFound
from inferscale_sidecar.service.chat import ChatService
from inferscale_sidecar.service.chat_turns import NextTurns
from inferscale_sidecar.service.write_back import WriteBack

NOW = datetime(2026, 1, 1, tzinfo=UTC)
HELLO = [{"role": "user", "content": "Where does she live?"}]


class FakeRecall:
    """Knows the store's items; handles are tenant-bound. Remembers what it was asked."""

    def __init__(self, store: FakeStore) -> None:
        self._store = store
        self.asked: list[dict[str, Any]] = []
        self.blocks: tuple[PinnedBlock, ...] = ()
        self.scope = Scope("alice")

    async def recall(self, tenant: Tenant, scope: Scope, query: str, **options: Any) -> Composition:
        self.asked.append({"tenant": tenant.id, "scope": scope, "query": query, **options})
        return self._composition(tenant, "mh_inside")

    async def resolve(self, tenant: Tenant, handle: str) -> Composition:
        if handle != f"mh_{tenant.id}":
            raise NotFound(f"no handle {handle!r}")
        return self._composition(tenant, handle)

    def _composition(self, tenant: Tenant, handle: str) -> Composition:
        mine = [i for i in self._store.live.values() if i.tenant_id == tenant.id]
        items = tuple(CompositionItem(i.memory_id, i.version, i.text, 0.5) for i in mine)
        end = NOW + timedelta(days=1)
        return Composition(handle, tenant.id, self.scope, items, NOW, end, self.blocks)


@dataclass
class Recorder:
    """Metrics as a list."""

    events: list[tuple[str, Any]] = field(default_factory=list)

    def ttft(self, mode: str, seconds: float) -> None:
        self.events.append(("ttft", mode))

    def duration(self, mode: str, seconds: float) -> None:
        self.events.append(("duration", mode))

    def tokens(self, source: str, count: int) -> None:
        self.events.append((source, count))

    def fallback(self, reason: str) -> None:
        self.events.append(("fallback", reason))


@dataclass
class Added:
    """A memory service that only adds."""

    texts: list[tuple[str, Scope, str]] = field(default_factory=list)
    error: Exception | None = None

    async def remember(
        self, tenant: Tenant, scope: Scope, messages: Sequence[Message], *, wait: bool
    ) -> None:
        if self.error:
            raise self.error
        self.texts += [(tenant.id, scope, str(message.content)) for message in messages]


def operation(body: Mapping[str, Any]) -> str | None:
    """What a request asks of the connector."""
    params = body.get("kv_transfer_params") or {}
    op: str | None = params.get("inferscale", {}).get("op")
    return op


class Stage:
    def __init__(
        self,
        engine: FakeEngine,
        client: EngineClient,
        *,
        lazy: LazyExactness | None = None,
        position: Position = "auto",
    ) -> None:
        self.engine, self.client, self.lazy = engine, client, lazy
        self.store = FakeStore()
        self.recall = FakeRecall(self.store)
        self.recorder = Recorder()
        lists = demo_lists()
        self.warmer = PrefixWarmer(client, ledger=self.store, openings=lists.openings)
        self.queue = BuildQueue(self.store, client, lists, poll_s=0.05)
        finder = PrefixFinder(client, lists)
        self.turns = NextTurns(finder, self.warmer)
        self.service = ChatService(
            client,
            self.recall,
            self.store,
            lists.frame,
            recorder=self.recorder,
            finder=finder,
            warmer=self.warmer,
            suspects=self.queue,
            lazy=lazy,
            position=position,
            turns=self.turns,
            keep_turns_s=60,
            clock=lambda: NOW,
        )
        self.added = Added()
        self.app = self._app()

    def _app(self) -> FastAPI:
        async def tenant(request: Request) -> Tenant:
            return TENANTS[request.headers.get("x-test-tenant", "acme")]

        app = FastAPI()
        problem.install(app)
        app.include_router(chat_router(self.service, self.client, tenant, WriteBack(self.added)))
        app.include_router(passthrough_router(self.client, tenant))
        return app

    async def remember(self, *texts: str, tenant: str = "acme") -> None:
        """Adds memories and builds their KV."""
        self.store.add(*texts, tenant=tenant)
        self.queue.start()
        self.queue.notify()
        await self.queue.wait_idle()
        await self.queue.stop()
        self.engine.bodies.clear()
        self.engine.builds.clear()
