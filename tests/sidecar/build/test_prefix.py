"""Prefixes ahead of their first use."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime

from tests.sidecar.engine.demo import demo_lists, demo_tokenizer
from tests.sidecar.engine.fake_engine import FakeEngine

from inferscale_sidecar.build.prefix import PrefixWarmer
from inferscale_sidecar.build.prefix_finder import PrefixFinder
from inferscale_sidecar.build.send import BUILD_PRIORITY
from inferscale_sidecar.compose.keys import tenant_tag
from inferscale_sidecar.core import PinnedBlock, Scope, Tail
from inferscale_sidecar.errors import StoreUnavailable

from .fake_store import TENANTS, FakeStore

ACME, GLOBEX = TENANTS["acme"], TENANTS["globex"]
IDS = (1, 5, 9, 13)
OTHERS = (1, 5, 9, 13, 17)
ALICE, NOW = Scope("alice"), datetime(2026, 1, 1, tzinfo=UTC)
TAIL = Tail(ALICE, NOW, 60)


async def test_a_prefix_is_built_once_per_tenant():
    engine = FakeEngine()
    async with engine.client() as client:
        await client.status()
        warmer = PrefixWarmer(client)
        both = await asyncio.gather(warmer.ensure(ACME, IDS), warmer.ensure(ACME, IDS))
        assert all(both) and await warmer.ensure(ACME, IDS)
        assert len(engine.builds) == 1
        assert await warmer.ensure(GLOBEX, IDS)
    assert engine.prefixes == {(tenant_tag(ACME), IDS), (tenant_tag(GLOBEX), IDS)}


async def test_it_never_holds_a_request_for_long_nor_fails_it():
    engine = FakeEngine()
    async with engine.client() as client:
        await client.status()
        warmer = PrefixWarmer(client, max_wait_s=0.01)
        engine.build_delay_s = 5
        assert not await warmer.ensure(ACME, IDS)
        await warmer.stop()
        engine.is_down = True
        assert not await PrefixWarmer(client).ensure(ACME, IDS)


async def test_a_request_does_not_wait_for_a_build_that_waits_for_requests():
    engine = FakeEngine()
    async with engine.client() as client:
        await client.status()
        warmer = PrefixWarmer(client, max_wait_s=0.01)
        engine.build_delay_s = 5
        assert not await warmer.ensure(ACME, IDS, priority=BUILD_PRIORITY)
        assert not await warmer.ensure(ACME, IDS, priority=BUILD_PRIORITY)
        engine.build_delay_s = 0
        assert await warmer.ensure(ACME, IDS, max_wait_s=5)
        assert [body["priority"] for body in engine.bodies] == [BUILD_PRIORITY, 0]
        await warmer.stop()


async def test_what_is_forgotten_is_built_again():
    engine = FakeEngine()
    async with engine.client() as client:
        await client.status()
        warmer = PrefixWarmer(client)
        await warmer.ensure(ACME, IDS)
        warmer.forget(ACME, IDS)
        await warmer.ensure(ACME, IDS)
        warmer.clear()
        await warmer.ensure(ACME, IDS)
    assert len(engine.builds) == 3


async def test_what_is_kept_for_a_while_is_written_down_and_built_again_afterwards():
    engine, store, tail = FakeEngine(), FakeStore(), Tail(ALICE, NOW, 0.2)
    async with engine.client() as client:
        await client.status()
        warmer = PrefixWarmer(client, ledger=store)
        assert await warmer.ensure(ACME, IDS, tail=tail)
        assert await warmer.ensure(ACME, IDS, tail=tail)
        assert len(engine.builds) == 1
        assert list(store.doomed.values()) == [0.2]
        await asyncio.sleep(0.2)
        await warmer.ensure(ACME, IDS, tail=tail)
    assert len(engine.builds) == 2


async def test_what_was_purged_is_not_known_and_built_again():
    engine, store = FakeEngine(), FakeStore()
    async with engine.client() as client:
        await client.status()
        warmer = PrefixWarmer(client, ledger=store)
        for ids in (IDS, OTHERS):
            await warmer.ensure(ACME, ids, tail=TAIL)
        keys = [keys for _, _, keys in store.tails]
        warmer.purged(["0" * 64, *keys[0]])
        for ids in (OTHERS, IDS, OTHERS, IDS):
            assert await warmer.ensure(ACME, ids, tail=TAIL)
    assert [build.prefix_end for build in engine.builds] == [len(IDS), len(OTHERS), len(IDS)]


async def test_what_was_forgotten_while_it_was_built_is_not_known():
    engine, store = FakeEngine(), FakeStore()
    async with engine.client() as client:
        await client.status()
        warmer = PrefixWarmer(client, ledger=store)
        store.forgotten.add(ALICE)
        assert not await warmer.ensure(ACME, IDS, tail=TAIL)
        assert [keys for _, _, keys in store.tails] == [tuple(store.purges)]
        store.forgotten.clear()
        assert await warmer.ensure(ACME, IDS, tail=TAIL)
    assert len(engine.builds) == 2


async def test_every_scope_that_has_a_conversation_is_written_down_once():
    """Built for one and found by the others, it goes when any of them is forgotten."""
    engine, store = FakeEngine(), FakeStore()
    both = [TAIL, replace(TAIL, scope=Scope("bob"))]
    async with engine.client() as client:
        await client.status()
        warmer = PrefixWarmer(client, ledger=store)
        for _ in range(2):
            await asyncio.gather(*(warmer.ensure(ACME, IDS, tail=tail) for tail in both))
    assert len(engine.builds) == 1
    assert [tail.scope for _, tail, _ in store.tails] == [ALICE, Scope("bob")]
    assert len({(tenant, keys) for tenant, _, keys in store.tails}) == 1
    assert 0 < store.tails[1][1].keep_s <= TAIL.keep_s, "nobody keeps it longer than it is known"


async def test_a_system_message_belongs_to_no_scope():
    engine, store = FakeEngine(), FakeStore()
    async with engine.client() as client:
        await client.status()
        warmer = PrefixWarmer(client, ledger=store)
        assert await warmer.ensure(ACME, IDS)
        assert await warmer.ensure(ACME, IDS, tail=TAIL)
    assert (len(engine.builds), store.tails) == (1, [])


class LateLedger(FakeStore):
    """A database that answers only the first time."""

    async def purge_later(self, fingerprint, keys, tenant_id, tail) -> bool:
        if self.tails:
            raise StoreUnavailable("the database does not answer")
        return await super().purge_later(fingerprint, keys, tenant_id, tail)


async def test_a_scope_that_cannot_be_written_down_fails_no_request():
    engine, store = FakeEngine(), LateLedger()
    async with engine.client() as client:
        await client.status()
        warmer = PrefixWarmer(client, ledger=store)
        for scope in (ALICE, Scope("bob")):
            assert await warmer.ensure(ACME, IDS, tail=replace(TAIL, scope=scope))
    assert len(store.tails) == 1


class DownLedger:
    """A database that does not answer at first."""

    def __init__(self) -> None:
        self.asked = 0

    async def put_block_prefixes(self, fingerprint, block_ids, keys) -> None:
        self.asked += 1
        if self.asked == 1:
            raise StoreUnavailable("the database does not answer")


async def test_what_cannot_be_written_down_is_not_known_and_fails_no_request():
    engine, ledger = FakeEngine(), DownLedger()
    pinned = [PinnedBlock("block-1", 1, "human", "x")]
    async with engine.client() as client:
        await client.status()
        warmer = PrefixWarmer(client, ledger=ledger)
        assert not await warmer.ensure(ACME, IDS, pinned=pinned)
        assert await warmer.ensure(ACME, IDS, pinned=pinned)
        assert await warmer.ensure(ACME, IDS, pinned=pinned)
    assert (len(engine.builds), ledger.asked) == (2, 2)


async def test_the_prefix_is_what_the_served_prompt_begins_with():
    engine, frame = FakeEngine(), demo_lists().frame
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}]
    async with engine.client() as client:
        await client.status()
        prefix = await PrefixFinder(client, demo_lists()).for_chat(messages, {})
    placed = frame.place(messages, frame.render(["Likes tea.", "Lives in Rome."]))
    prompt = demo_tokenizer().encode(demo_tokenizer().render(placed)).ids
    item = demo_lists().split(["Likes tea."]).item_ids(0)
    assert prompt[: len(prefix)] == prefix
    assert prompt[len(prefix) : len(prefix) + len(item)] == item


async def test_an_engine_that_cannot_say_costs_the_prefix_only():
    engine = FakeEngine()
    async with engine.client() as client:
        await client.status()
        finder = PrefixFinder(client, demo_lists())
        engine.is_down = True
        assert await finder.for_prompt() == ()
        engine.is_down = False
        assert len(await finder.for_prompt()) > 4
