"""The memory service: what callers see, over a real database."""

import asyncio
from typing import Any

import pytest

from inferscale.protocol.memory import Message
from inferscale_sidecar.core import KvItem, Scope
from inferscale_sidecar.errors import Conflict, InvalidInput, NotFound, Unsupported
from inferscale_sidecar.index import FlatIndex
from inferscale_sidecar.service.memory import MemoryService
from inferscale_sidecar.service.search import Searcher

ALICE, BOB = Scope(user_id="alice"), Scope(user_id="bob")
FINGERPRINT = "engine-1"


async def test_read_your_writes_through_every_door(world: Any) -> None:
    (added,) = await world.memory.add(world.tenant, ALICE, "she likes green tea")
    memory = added.memory
    assert added.event == "ADD"
    assert await world.memory.get(world.tenant, memory.id) == memory
    assert (await world.memory.list(world.tenant, ALICE)).memories == [memory]
    (hit,) = await world.memory.search(world.tenant, ALICE, "green tea")
    assert hit.memory == memory
    assert [event.text for event in await world.memory.history(world.tenant, memory.id)] == [
        memory.text
    ]
    changed = await world.memory.update(world.tenant, memory.id, text="she likes black coffee")
    (hit,) = await world.memory.search(world.tenant, ALICE, "black coffee")
    assert (hit.memory, round(hit.score, 3)) == (changed, hit.score.__round__(3))
    assert hit.score > 0.8
    await world.memory.delete(world.tenant, memory.id)
    assert await world.memory.search(world.tenant, ALICE, "black coffee") == []
    with pytest.raises(NotFound):
        await world.memory.get(world.tenant, memory.id)


async def test_a_batch_keeps_roles_and_names_and_order(world: Any) -> None:
    messages = [
        Message(role="system", content="be nice"),
        Message(role="user", content="I moved", name="Ann"),
        Message(role="assistant", content="Where to?"),
        Message(role="user", content="I moved"),
    ]
    results = await world.memory.add(world.tenant, ALICE, messages, metadata={"a": 1})
    shown = [(r.event, r.memory.text, r.memory.role, r.memory.actor_id) for r in results]
    assert shown == [
        ("ADD", "I moved", "user", "Ann"),
        ("ADD", "Where to?", "assistant", None),
        ("NOOP", "I moved", "user", "Ann"),
    ]
    assert all(result.memory.metadata == {"a": 1} for result in results)
    assert results[0].memory.id == results[2].memory.id


async def test_empty_input_costs_nothing_and_gives_nothing(world: Any) -> None:
    for nothing in ([], "", "  ", [Message(role="system", content="x")]):
        assert await world.memory.add(world.tenant, ALICE, nothing) == []
    assert world.embedder.num_embedded == 0
    assert world.writes == []


async def test_one_bad_message_refuses_all_of_the_batch(world: Any) -> None:
    with pytest.raises(InvalidInput):
        await world.memory.add(
            world.tenant, ALICE, [Message(content="good"), Message(content="b\x00d")]
        )
    assert (await world.memory.list(world.tenant, ALICE)).total == 0


async def test_infer_is_refused_with_the_remedy(world: Any) -> None:
    with pytest.raises(Unsupported, match="infer=False"):
        await world.memory.add(world.tenant, ALICE, "tea", infer=True)
    await world.memory.add(world.tenant, ALICE, "tea", infer=False)


async def test_ten_thousand_messages_at_once_are_stored_and_more_are_refused(world: Any) -> None:
    texts = [Message(content=f"fact number {i}") for i in range(10_001)]
    with pytest.raises(InvalidInput, match="10000"):
        await world.memory.add(world.tenant, ALICE, texts)
    results = await world.memory.add(world.tenant, ALICE, texts[:10_000])
    assert len({result.memory.id for result in results}) == 10_000
    assert (await world.memory.list(world.tenant, ALICE, limit=1)).total == 10_000
    hits = await world.memory.search(world.tenant, ALICE, "fact number 7777", limit=1)
    assert hits[0].memory.text == "fact number 7777"
    removed = await world.memory.delete_all(world.tenant, ALICE)
    assert removed.memories == 10_000
    assert await world.memory.search(world.tenant, ALICE, "fact", limit=5) == []


async def test_a_retry_with_the_same_key_changes_nothing(world: Any) -> None:
    async def add(text: str = "tea") -> Any:
        return await world.memory.add(world.tenant, ALICE, text, idempotency_key="k1")

    first = await add()
    (memory,) = (added.memory for added in first)
    assert await asyncio.gather(*(add() for _ in range(5))) == [first] * 5
    await world.memory.delete(world.tenant, memory.id)
    (again,) = await add()
    assert again.memory.id == memory.id
    assert (await world.memory.list(world.tenant, ALICE)).total == 0
    with pytest.raises(Conflict):
        await add("another text")
    other = await world.memory.add(world.other, ALICE, "another text", idempotency_key="k1")
    assert other[0].event == "ADD"


async def test_a_long_addition_that_is_sent_again_is_not_embedded_again(world: Any) -> None:
    texts = [Message(role="user", content=f"fact number {i}") for i in range(20)]
    first = await world.memory.add(world.tenant, ALICE, texts, idempotency_key="k1")
    embedded = world.embedder.num_embedded
    assert await world.memory.add(world.tenant, ALICE, texts, idempotency_key="k1") == first
    assert world.embedder.num_embedded == embedded == 20


@pytest.mark.parametrize("key", ["", "k" * 257, "a\nb", "ключ"])
async def test_a_bad_key_is_refused(world: Any, key: str) -> None:
    with pytest.raises(InvalidInput, match="Idempotency-Key"):
        await world.memory.add(world.tenant, ALICE, "tea", idempotency_key=key)


async def test_nothing_works_without_a_scope(world: Any) -> None:
    for call in (
        world.memory.add(world.tenant, Scope(), "tea"),
        world.memory.list(world.tenant, Scope()),
        world.memory.search(world.tenant, Scope(), "tea"),
        world.memory.delete_all(world.tenant, Scope()),
        world.recall.recall(world.tenant, Scope(), "tea"),
    ):
        with pytest.raises(InvalidInput, match="at least one of"):
            await call


async def test_the_build_queue_hears_of_writes_and_of_nothing_else(world: Any) -> None:
    (added,) = await world.memory.add(world.tenant, ALICE, "tea")
    assert len(world.writes) == 1
    await world.memory.add(world.tenant, ALICE, "tea")
    await world.memory.search(world.tenant, ALICE, "tea")
    await world.memory.delete_all(world.tenant, BOB)
    assert len(world.writes) == 1
    await world.memory.update(world.tenant, added.memory.id, text="coffee")
    await world.memory.delete(world.tenant, added.memory.id)
    assert len(world.writes) == 3


async def test_where_nothing_is_built_nothing_is_waited_for(world: Any) -> None:
    await world.memory.add(world.tenant, ALICE, "tea")
    assert (await world.memory.builds(world.tenant)).queued == 1
    searcher = Searcher(world.store, world.embedder, world.metrics, create_index=FlatIndex)
    off = MemoryService(
        world.store, world.embedder, searcher, world.metrics, is_kv_off=lambda: True
    )
    assert (await off.builds(world.tenant)).queued == 0


async def test_metadata_can_be_replaced_and_cleared_but_not_identity(world: Any) -> None:
    (added,) = await world.memory.add(world.tenant, ALICE, "tea", metadata={"user_id": "bob"})
    memory_id = added.memory.id
    assert added.memory.scope == ALICE
    assert (await world.memory.list(world.tenant, BOB)).total == 0
    changed = await world.memory.update(world.tenant, memory_id, metadata={"user_id": "eve"})
    assert (changed.scope, changed.metadata) == (ALICE, {"user_id": "eve"})
    changed = await world.memory.update(world.tenant, memory_id, text="coffee")
    assert changed.metadata == {"user_id": "eve"}
    changed = await world.memory.update(world.tenant, memory_id, clear_metadata=True)
    assert (changed.metadata, changed.text) == (None, "coffee")
    with pytest.raises(InvalidInput, match="none was given"):
        await world.memory.update(world.tenant, memory_id)


async def test_kv_states_are_the_current_engines(world: Any) -> None:
    (added,) = await world.memory.add(world.tenant, ALICE, "tea")
    memory = added.memory
    item = KvItem(memory.id, 1, world.tenant.id, FINGERPRINT, "k", 3)
    assert (await world.memory.builds(world.tenant)).queued == 1
    await world.store.put_kv_items([item])
    assert (await world.memory.get(world.tenant, memory.id)).kv_state == "ready"
    assert (await world.memory.builds(world.tenant)).ready == 1
    assert (await world.memory.builds(world.other)).ready == 0
    (again,) = await world.memory.add(world.tenant, ALICE, "tea")
    assert again.memory.kv_state == "ready"


async def test_operations_are_counted_by_how_they_ended(world: Any) -> None:
    await world.memory.add(world.tenant, ALICE, "tea")
    with pytest.raises(NotFound):
        await world.memory.get(world.tenant, "nothing")
    value = world.metrics.registry.get_sample_value
    name = "inferscale_memory_operations_total"
    assert value(name, {"operation": "add", "outcome": "ok"}) == 1
    assert value(name, {"operation": "get", "outcome": "not_found"}) == 1
    assert value(name, {"operation": "search", "outcome": "ok"}) == 0
