"""Expiry through the services: out of every reading at once, swept later, extracted facts too."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from inferscale.protocol.memory import Message
from inferscale_sidecar.core import KvItem, Scope
from inferscale_sidecar.errors import InvalidInput, NotFound
from inferscale_sidecar.service.sweep import BATCH, Sweeper

from .test_facts import Facts

ALICE = Scope(user_id="alice")


def _sweeper(world: Any, *, keep_s: float = 0.0, every_s: float = 60.0) -> Sweeper:
    return Sweeper(
        world.store,
        every_s=every_s,
        keep_s=keep_s,
        on_write=lambda: world.writes.append(None),
        clock=world.clock,
    )


async def _add(world: Any, *texts: str, **options: Any) -> list[Any]:
    messages = [Message(content=text) for text in texts]
    added = await world.memory.add(world.tenant, ALICE, messages, **options)
    return [each.memory for each in added]


async def _search(world: Any, query: str = "tea", **options: Any) -> set[str]:
    hits = await world.memory.search(world.tenant, ALICE, query, **options)
    return {hit.memory.text for hit in hits}


async def test_out_of_every_reading_at_once_without_a_sweep(world: Any) -> None:
    (short,) = await _add(world, "short tea", ttl_s=10)
    await _add(world, "long tea")
    composition = await world.recall.recall(world.tenant, ALICE, "tea")
    assert len(composition.items) == 2
    assert await _search(world) == {"short tea", "long tea"}
    world.clock.advance(seconds=10)
    assert await _search(world) == {"long tea"}
    assert await _search(world, "short tea", limit=1) == {"long tea"}
    with pytest.raises(NotFound):
        await world.memory.get(world.tenant, short.id)
    page = await world.memory.list(world.tenant, ALICE)
    assert ([m.text for m in page.memories], page.total) == (["long tea"], 1)
    resolved = await world.recall.resolve(world.tenant, composition.handle)
    assert [item.text for item in resolved.items] == ["long tea"]
    again = await world.recall.recall(world.tenant, ALICE, "tea")
    assert [item.text for item in again.items] == ["long tea"]
    ids, _ = await world.memory.delete_where(world.tenant, ALICE, {"role": "user"}, dry_run=True)
    assert short.id not in ids and len(ids) == 1


async def test_the_expired_are_shown_on_request_until_they_are_swept(world: Any) -> None:
    (short,) = await _add(world, "short tea", ttl_s=10, metadata={"kind": "tea"})
    await _add(world, "long tea")
    world.clock.advance(seconds=20)
    both = {"short tea", "long tea"}
    assert await _search(world, show_expired=True) == both
    assert await _search(world, show_expired=True, filters={"kind": "tea"}) == {"short tea"}
    page = await world.memory.list(world.tenant, ALICE, show_expired=True)
    assert {memory.text for memory in page.memories} == both
    shown = await world.memory.get(world.tenant, short.id, show_expired=True)
    assert shown.expires_at is not None and shown.expires_at < world.clock.now
    await _sweeper(world, keep_s=60).sweep()
    assert await _search(world, show_expired=True) == both
    world.clock.advance(seconds=60)
    await _sweeper(world, keep_s=60).sweep()
    assert await _search(world, show_expired=True) == {"long tea"}
    with pytest.raises(NotFound):
        await world.memory.get(world.tenant, short.id, show_expired=True)


async def test_the_sweep_reaches_more_than_one_batch_and_wakes_the_builder(world: Any) -> None:
    await _add(world, *(f"tea {i}" for i in range(BATCH + 3)), ttl_s=10)
    await _add(world, "stays")
    world.writes.clear()
    assert (await _sweeper(world).sweep()).memories == 0
    assert world.writes == []
    world.clock.advance(seconds=11)
    assert (await _sweeper(world).sweep()).memories == BATCH + 3
    assert world.writes == [None]
    assert await _search(world, show_expired=True) == {"stays"}


async def test_the_kv_goes_at_once_though_the_row_is_kept(world: Any) -> None:
    (short,) = await _add(world, "short", ttl_s=10)
    (long,) = await _add(world, "long")
    items = [
        KvItem(short.id, 1, world.tenant.id, "engine-1", "k1", 3),
        KvItem(long.id, 1, world.tenant.id, "engine-1", "k2", 3, (short.id,)),
    ]
    await world.store.put_kv_items(items)
    world.clock.advance(seconds=11)
    assert (await _sweeper(world, keep_s=9_999).sweep()).kv_items == 2
    assert set(await world.store.take_purges("engine-1", limit=9)) == {"k1", "k2"}


async def test_a_longer_life_given_later_is_seen_by_the_index(world: Any) -> None:
    (tea,) = await _add(world, "tea", ttl_s=10)
    assert await _search(world) == {"tea"}
    await world.memory.update(world.tenant, tea.id, ttl_s=30)
    world.clock.advance(seconds=20)
    assert await _search(world) == {"tea"}
    changed = await world.memory.update(world.tenant, tea.id, never_expires=True)
    assert changed.expires_at is None and changed.version == 1
    world.clock.advance(days=900)
    assert await _search(world) == {"tea"}
    await world.memory.update(
        world.tenant, tea.id, expires_at=world.clock.now + timedelta(seconds=5)
    )
    world.clock.advance(seconds=5)
    assert await _search(world) == set()


@pytest.mark.parametrize("seconds", [0, -1, -86_400])
async def test_a_time_gone_by_is_refused_and_nothing_stored(world: Any, seconds: int) -> None:
    past = world.clock.now + timedelta(seconds=seconds)
    with pytest.raises(InvalidInput, match="not in the future"):
        await _add(world, "tea", expires_at=past)
    (tea,) = await _add(world, "tea")
    with pytest.raises(InvalidInput, match="not in the future"):
        await world.memory.update(world.tenant, tea.id, expires_at=past)
    assert (await world.memory.get(world.tenant, tea.id)).expires_at is None


async def test_a_retry_gets_its_answer_though_the_time_is_over_meanwhile(world: Any) -> None:
    end = world.clock.now + timedelta(seconds=5)
    options = {"expires_at": end, "idempotency_key": "k"}
    await _add(world, "tea", **options)
    world.clock.advance(seconds=10)
    (again,) = await _add(world, "tea", **options)
    assert again.text == ""


async def test_facts_live_as_long_as_the_messages_they_come_from(world: Any) -> None:
    facts = Facts(world)
    done = await facts.add("tea", ttl_s=10)
    assert [r.memory.expires_at for r in done.results] == [done.extraction.turns[0].expires_at]
    assert await facts.found() == {"fact: tea"}
    world.clock.advance(seconds=11)
    assert await facts.found() == set()
    again = await facts.add("tea")
    assert [(r.event, r.memory.expires_at) for r in again.results] == [("ADD", None)]
    assert await facts.found() == {"fact: tea"}
    assert len(facts.extractor.calls) == 2


async def test_a_fact_that_expires_alone_is_extracted_again(world: Any) -> None:
    facts = Facts(world)
    done = await facts.add("tea")
    await facts.memory.update(world.tenant, done.results[0].memory.id, ttl_s=10)
    world.clock.advance(seconds=11)
    again = await facts.add("tea")
    assert [r.event for r in again.results] == ["ADD"]
    assert await facts.found() == {"fact: tea"}
    removed = await _sweeper(world).sweep()
    assert (removed.memories, removed.sources) == (0, 0)  # adding again has removed the old one


async def test_a_message_stays_while_another_fact_needs_it(world: Any) -> None:
    facts = Facts(world)
    done = await facts.add([Message(content="tea"), Message(content="milk")])
    tea, milk = (result.memory for result in done.results)
    await facts.memory.update(world.tenant, tea.id, ttl_s=10)
    world.clock.advance(seconds=11)
    removed = await _sweeper(world).sweep()
    assert (removed.memories, removed.sources) == (1, 1)
    assert await facts.found() == {milk.text}


async def test_the_sweep_goes_on_after_a_failure(world: Any) -> None:
    await _add(world, "tea", ttl_s=1)
    world.clock.advance(seconds=5)

    class Flaky:
        def __init__(self) -> None:
            self.failures = 2

        async def drop_expired_kv(self, now: Any) -> int:
            self.failures -= 1
            if self.failures >= 0:
                raise OSError("the disk is away")
            return 0

        async def sweep_expired(self, until: Any, *, limit: int) -> Any:
            return await world.store.sweep_expired(until, limit=limit)

    sweeper = Sweeper(Flaky(), every_s=0.001, keep_s=0, clock=world.clock)
    task = asyncio.create_task(sweeper.run())
    for _ in range(500):
        if not await _search(world, show_expired=True):
            break
        await asyncio.sleep(0.005)
    task.cancel()
    assert await _search(world, show_expired=True) == set()
