"""Two sidecars with a bank each on one database: what one writes the other serves at once.

Real services and build queues; the engines are stand-ins with banks of their own. On one SQLite
file the same must hold.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import UTC, datetime

import pytest
from tests.sidecar.engine.demo import demo_lists
from tests.sidecar.engine.fake_engine import FakeEngine

from inferscale.protocol.memory import Message
from inferscale_sidecar.build.prefix import PrefixWarmer
from inferscale_sidecar.build.queue import BuildQueue
from inferscale_sidecar.core import Scope, Tail, Tenant
from inferscale_sidecar.errors import NotFound, Unauthenticated
from inferscale_sidecar.index import FlatIndex
from inferscale_sidecar.metrics import Metrics
from inferscale_sidecar.service.memory import MemoryService
from inferscale_sidecar.service.recall import RecallService
from inferscale_sidecar.service.search import Searcher
from inferscale_sidecar.service.tenant import TenantService
from inferscale_sidecar.store import SqlStore

from .fakes import HashEmbedder, ListFrame

ALICE = Scope(user_id="alice")
pytestmark = [
    pytest.mark.parametrize("backend", ["sqlite", "postgres"], indirect=True),
    pytest.mark.timeout(120),
]


@dataclass
class Sidecar:
    """One of them."""

    store: SqlStore
    engine: FakeEngine
    queue: BuildQueue
    warmer: PrefixWarmer
    memory: MemoryService
    recall: RecallService
    tenants: TenantService
    tenant: Tenant

    async def add(self, *texts: str) -> list[str]:
        messages = [Message(content=text) for text in texts]
        return [r.memory.id for r in await self.memory.add(self.tenant, ALICE, messages)]

    async def found(self, query: str = "tea") -> list[str]:
        hits = await self.memory.search(self.tenant, ALICE, query, limit=10)
        return sorted(hit.memory.text for hit in hits)

    async def states(self) -> list[str]:
        page = await self.memory.list(self.tenant, ALICE)
        return [memory.kv_state for memory in page.memories]

    async def built(self) -> set[str]:
        """Build all there is; the keys that the bank holds then."""
        self.queue.start()
        self.queue.notify()
        await self.queue.wait_idle()
        return set(self.engine.bank)


@pytest.fixture
async def pair(store: SqlStore, database_url: str) -> AsyncIterator[tuple[Sidecar, Sidecar]]:
    async with AsyncExitStack() as stack:
        yield (
            await _start(stack, database_url, "bank-1"),
            await _start(stack, database_url, "bank-2"),
        )


async def _start(stack: AsyncExitStack, url: str, bank: str) -> Sidecar:
    store, engine = SqlStore(url), FakeEngine()
    engine.bank_id = bank
    await store.start()
    stack.push_async_callback(store.close)
    client = await stack.enter_async_context(engine.client())
    await client.status()
    warmer = PrefixWarmer(client, ledger=store)
    queue = BuildQueue(store, client, demo_lists(), poll_s=0.05, on_purge=warmer.purged)
    stack.push_async_callback(queue.stop)
    embedder, metrics = HashEmbedder(), Metrics("test")
    await store.bind_embedder(embedder.name, embedder.dim)

    def name() -> str:
        return client.fingerprint

    searcher = Searcher(store, embedder, metrics, create_index=FlatIndex, fingerprint=name)
    memory = MemoryService(
        store, embedder, searcher, metrics, on_write=queue.notify, fingerprint=name
    )
    recall = RecallService(store, searcher, ListFrame(), metrics, fingerprint=name)
    tenant = await store.get_tenant("default")
    assert tenant is not None
    tenants = TenantService(store, metrics)
    return Sidecar(store, engine, queue, warmer, memory, recall, tenants, tenant)


async def test_writes_of_one_are_found_by_the_other_at_once(pair: tuple[Sidecar, Sidecar]) -> None:
    one, two = pair
    assert await one.found() == await two.found() == []
    (tea,) = await one.add("tea")
    assert await two.found() == ["tea"]
    (coffee,) = await two.add("coffee")
    assert await one.found() == ["coffee", "tea"]
    await two.memory.update(two.tenant, tea, text="green tea")
    assert await one.found() == ["coffee", "green tea"]
    await one.memory.delete(one.tenant, coffee)
    assert await two.found() == ["green tea"]
    with pytest.raises(NotFound):
        await two.memory.get(two.tenant, coffee)


async def test_handles_of_one_resolve_at_the_other(pair: tuple[Sidecar, Sidecar]) -> None:
    one, two = pair
    tea, _ = await one.add("tea", "coffee")
    handle = (await one.recall.recall(one.tenant, ALICE, "tea", k=2)).handle
    found = await two.recall.resolve(two.tenant, handle)
    assert {item.text for item in found.items} == {"tea", "coffee"}
    await two.memory.delete(two.tenant, tea)
    left = await one.recall.resolve(one.tenant, handle)
    assert [item.text for item in left.items] == ["coffee"]


async def test_each_builds_for_its_own_bank_and_purges_it(pair: tuple[Sidecar, Sidecar]) -> None:
    one, two = pair
    tea, _ = await one.add("tea", "coffee")
    first = await one.built()
    assert len(first) == 2 and not two.engine.bank
    assert (await one.states(), await two.states()) == (["ready"] * 2, ["queued"] * 2)
    assert len(await two.built()) == 2
    assert await one.states() == await two.states() == ["ready"] * 2
    await two.memory.delete(two.tenant, tea)
    for each in pair:  # coffee was encoded behind tea: it went too, and is built again
        assert len(await each.built()) == 1
        assert await each.states() == ["ready"]
    assert not first & set(one.engine.bank), "the first bank still holds what the other deleted"


async def test_whoever_forgets_a_user_no_bank_keeps_her_conversations(
    pair: tuple[Sidecar, Sidecar],
) -> None:
    """Nor does a sidecar believe that its engine does: the next turn is prefilled again."""
    history = (1, 5, 9, 13)

    async def turn(sidecar: Sidecar, user_id: str, ids: tuple[int, ...]) -> bool:
        tail = Tail(Scope(user_id), datetime.now(UTC), 3600)
        return await sidecar.warmer.ensure(sidecar.tenant, ids, tail=tail)

    for each in pair:
        await each.built()
        assert await turn(each, "alice", history) and await turn(each, "bob", (*history, 17))
        each.engine.bodies.clear()
    await pair[0].memory.delete_all(pair[0].tenant, ALICE)
    for each in pair:
        await each.built()
        (gone,) = each.engine.deleted
        assert await turn(each, "bob", (*history, 17)) and not each.engine.bodies
        assert await turn(each, "alice", history) and len(each.engine.bodies) == 1
        assert gone == each.engine.key_of(each.engine.builds[-1], history)


async def test_two_on_one_engine_agree_as_well(
    pair: tuple[Sidecar, Sidecar],
) -> None:
    one, two = pair
    two.engine.bank = one.engine.bank
    two.engine.bank_id = one.engine.bank_id
    await one.add("tea", "coffee", "water")
    await asyncio.gather(one.built(), two.built())
    assert len(one.engine.bank) == 3
    assert await one.states() == await two.states() == ["ready"] * 3
    await one.memory.delete_all(one.tenant, ALICE)
    await asyncio.gather(one.built(), two.built())
    assert not one.engine.bank


async def test_the_same_fact_at_both_at_once_is_one(pair: tuple[Sidecar, Sidecar]) -> None:
    one, two = pair
    ids = await asyncio.gather(*(each.add("tea") for each in pair * 5))
    assert len({i for (i,) in ids}) == 1
    assert await one.found() == await two.found() == ["tea"]


async def test_keys_of_one_open_the_other_until_they_are_revoked(
    pair: tuple[Sidecar, Sidecar],
) -> None:
    one, two = pair
    secret, key = await one.tenants.create_key(one.tenant.id, name="app")
    assert (await two.tenants.authenticate(secret, is_local=False)).tenant == two.tenant
    await one.tenants.revoke_key(one.tenant.id, key.id)
    await asyncio.sleep(1.1)  # how long a grant is remembered
    with pytest.raises(Unauthenticated):
        await two.tenants.authenticate(secret, is_local=False)
