"""Reads of a past moment: what was live then, in the words of then; what was deleted stays gone."""

from datetime import datetime
from typing import Any

import pytest

from inferscale.protocol.memory import Message
from inferscale_sidecar.core import KvItem, Scope
from inferscale_sidecar.errors import NotFound
from inferscale_sidecar.store.records import Draft, FactDraft, Target

from .test_facts import Facts

ALICE = Scope(user_id="alice")


@pytest.fixture(params=["sqlite", "postgres"])
def backend(request: pytest.FixtureRequest) -> Any:
    return request.getfixturevalue(f"{request.param}_backend")


async def _add(world: Any, text: str, **options: Any) -> str:
    added = await world.memory.add(world.tenant, ALICE, Message(content=text), **options)
    memory_id: str = added[0].memory.id
    return memory_id


def _tick(world: Any) -> datetime:
    """The present; then an hour passes."""
    now: datetime = world.clock.now
    world.clock.advance(hours=1)
    return now


async def _seen(world: Any, as_of: datetime | None, memory: Any = None, **how: Any) -> set[str]:
    """The texts at a moment, which a list and a search must agree on."""
    service = memory or world.memory
    page = await service.list(world.tenant, ALICE, as_of=as_of, **how)
    hits = await service.search(world.tenant, ALICE, "tea", limit=99, as_of=as_of, **how)
    listed = [memory.text for memory in page.memories]
    assert sorted(listed) == sorted(hit.memory.text for hit in hits)
    assert page.total == len(listed)
    for memory in [*page.memories, *(hit.memory for hit in hits)]:
        assert memory.status in ("live", "pending") and memory.superseded_by is None
        one = await service.get(world.tenant, memory.id, as_of=as_of)
        assert (one.text, one.version) == (memory.text, memory.version)
    return set(listed)


async def test_texts_are_those_of_the_moment(world: Any) -> None:
    start = _tick(world)
    memory_id = await _add(world, "green tea")
    first = _tick(world)
    await world.memory.update(world.tenant, memory_id, text="black tea")
    await _add(world, "milk")
    second = _tick(world)
    await world.memory.update(world.tenant, memory_id, text="white tea")
    assert await _seen(world, start) == set()
    assert await _seen(world, first) == {"green tea"}
    assert await _seen(world, second) == {"black tea", "milk"}
    assert await _seen(world, None) == {"white tea", "milk"}
    then = await world.memory.get(world.tenant, memory_id, as_of=first)
    assert (then.version, then.kv_state, then.updated_at) == (1, "off", then.created_at)
    with pytest.raises(NotFound):
        await world.memory.get(world.tenant, memory_id, as_of=start)


async def test_the_past_is_ranked_by_the_words_of_then(world: Any) -> None:
    one, two = await _add(world, "red apple"), await _add(world, "blue sky")
    then = _tick(world)
    await world.memory.update(world.tenant, one, text="cold rain")
    await world.memory.update(world.tenant, two, text="red apple")
    for as_of, best in ((then, one), (None, two)):
        for mode in ({}, {"limit": 1}):
            hits = await world.memory.search(world.tenant, ALICE, "red apple", as_of=as_of, **mode)
            assert (hits[0].memory.id, hits[0].memory.text) == (best, "red apple")
            assert hits[0].score == pytest.approx(1)


async def test_the_present_and_a_time_to_come_read_the_same(world: Any) -> None:
    memory_id = await _add(world, "green tea")
    await world.memory.update(world.tenant, memory_id, text="black tea")
    _tick(world)
    future = world.clock.now.replace(year=2100)
    for as_of in (world.clock.now, future, None):
        assert await _seen(world, as_of) == {"black tea"}
        memory = await world.memory.get(world.tenant, memory_id, as_of=as_of)
        assert (memory.kv_state, memory.version) == ("queued", 2)


async def test_what_was_deleted_or_has_expired_is_gone_at_every_moment(world: Any) -> None:
    deleted = await _add(world, "green tea")
    await _add(world, "short tea", ttl_s=5_000)
    then = _tick(world)
    assert await _seen(world, then) == {"green tea", "short tea"}
    await world.memory.delete(world.tenant, deleted)
    assert await _seen(world, then) == {"short tea"}
    _tick(world)
    assert await _seen(world, then) == set()


async def test_what_was_superseded_is_there_until_then_and_messages_until_their_facts(
    world: Any,
) -> None:
    facts = Facts(world)
    start = _tick(world)
    job = await facts.memory.remember(world.tenant, ALICE, "tea", infer=True, wait=False)
    said = _tick(world)
    await facts.memory.remember(world.tenant, ALICE, "tea", infer=True)
    extracted = _tick(world)
    await facts.memory.remember(world.tenant, ALICE, "no tea", infer=True)
    assert await _seen(world, start, facts.memory) == set()
    assert await _seen(world, said, facts.memory) == {"tea"}
    assert await _seen(world, extracted, facts.memory) == {"fact: tea"}
    assert "fact: no tea" in await _seen(world, None, facts.memory)
    turn = job.extraction.turns[0]
    message = await facts.memory.get(world.tenant, turn.id, as_of=extracted)
    assert message.status == "source"
    history = await facts.memory.history(world.tenant, turn.id)
    assert [event.event for event in history] == ["ADD", "EXTRACT"]


async def test_superseded_facts_by_hand(world: Any) -> None:
    async def fact(text: str, *replaced: Any) -> Any:
        said, vector = await world.embedder.embed([f"I said {text}", text])
        job = await world.store.open_extraction(
            world.tenant.id, ALICE, [Draft(f"I said {text}", said)]
        )
        draft = FactDraft(Draft(text, vector), (0,), supersedes=replaced)
        return (await world.store.finish_extraction(world.tenant.id, job.id, [draft]))[0].memory

    old = await fact("likes tea")
    before = _tick(world)
    new = await fact("likes milk", Target(old.id, 1))
    assert await _seen(world, before) == {"likes tea"}
    assert await _seen(world, None) == {"likes milk"}
    now = await world.memory.get(world.tenant, old.id)
    assert (now.status, now.superseded_by) == ("superseded", new.id)
    then = await world.memory.get(world.tenant, old.id, as_of=before)
    assert (then.status, then.superseded_by, then.kv_state) == ("live", None, "off")


async def test_filters_pages_and_other_tenants(world: Any) -> None:
    ids = [await _add(world, f"tea {i}", metadata={"i": i}) for i in range(5)]
    await world.memory.add(world.other, ALICE, "foreign tea")
    then = _tick(world)
    for memory_id in ids:
        await world.memory.update(world.tenant, memory_id, text=f"changed {memory_id}")
    assert await _seen(world, then, filters={"i": {"gte": 3}}) == {"tea 3", "tea 4"}
    assert await _seen(world, then, filters={"role": "user"}) == {f"tea {i}" for i in range(5)}
    first = await world.memory.list(world.tenant, ALICE, limit=3, as_of=then)
    rest = await world.memory.list(
        world.tenant, ALICE, limit=3, before=first.next_before, as_of=then
    )
    texts = [memory.text for memory in [*first.memories, *rest.memories]]
    assert texts == [f"tea {i}" for i in range(4, -1, -1)]


async def test_a_handle_of_the_past_keeps_its_words(world: Any) -> None:
    changed, same = await _add(world, "green tea"), await _add(world, "cold tea")
    deleted = await _add(world, "old tea")
    items = [KvItem(i, 1, world.tenant.id, "engine-1", i, 3) for i in (changed, same)]
    await world.store.put_kv_items(items)
    then = _tick(world)
    await world.memory.update(world.tenant, changed, text="milk")
    made = await world.recall.recall(world.tenant, ALICE, "tea", as_of=then)
    assert {item.text for item in made.items} == {"green tea", "cold tea", "old tea"}
    shown = await world.recall.show(made)
    states = dict(zip((i.memory_id for i in made.items), shown.kv_states, strict=True))
    assert (states[changed], states[same]) == ("off", "ready")
    assert await world.recall.resolve(world.tenant, made.handle) == made
    await world.memory.delete(world.tenant, deleted)
    await world.memory.update(world.tenant, same, text="hot tea")
    again = await world.recall.resolve(world.tenant, made.handle)
    assert again.as_of == then
    assert {item.text for item in again.items} == {"green tea", "cold tea"}
    present = await world.recall.recall(world.tenant, ALICE, "tea")
    assert {item.text for item in present.items} == {"milk", "hot tea"}
