"""Recall and handles."""

import re
from typing import Any

import pytest

from inferscale.protocol.memory import Message
from inferscale_sidecar.core import KvItem, Scope
from inferscale_sidecar.errors import NotFound

ALICE = Scope(user_id="alice")
FINGERPRINT = "engine-1"


async def _add(world: Any, *texts: str) -> list[Any]:
    added = await world.memory.add(world.tenant, ALICE, [Message(content=t) for t in texts])
    return [each.memory for each in added]


async def test_best_last_and_the_same_again(world: Any) -> None:
    await _add(world, "blue sky", "red car", "red apple")
    first = await world.recall.recall(world.tenant, ALICE, "red apple", k=3)
    scores = [item.score for item in first.items]
    assert scores == sorted(scores)
    assert first.items[-1].text == "red apple"
    second = await world.recall.recall(world.tenant, ALICE, "red apple", k=3)
    assert second.items == first.items
    assert second.handle != first.handle
    assert re.fullmatch(r"mh_[0-9a-f]{32}", first.handle)
    assert await world.recall.resolve(world.tenant, first.handle) == first


async def test_items_without_kv_go_behind_the_ready_ones_but_before_the_best(world: Any) -> None:
    memories = await _add(world, *(f"tea number {i}" for i in range(10)))
    recalled = await world.recall.recall(world.tenant, ALICE, "tea number 3", k=10)
    ranked = [item.memory_id for item in recalled.items]
    waiting = ranked[0], ranked[9]
    ready = [memory for memory in memories if memory.id not in waiting]
    await world.store.put_kv_items(
        [KvItem(m.id, 1, world.tenant.id, FINGERPRINT, m.id, 3) for m in ready]
    )
    again = await world.recall.recall(world.tenant, ALICE, "tea number 3", k=10)
    expected = [*ranked[1:8], ranked[0], *ranked[8:]]
    assert [item.memory_id for item in again.items] == expected
    shown = await world.recall.show(again)
    assert [state == "ready" for state in shown.kv_states] == [i not in waiting for i in expected]
    assert shown.text == "".join(f"- {item.text}\n" for item in again.items)


async def test_a_handle_follows_deletion_and_change_but_not_addition(world: Any) -> None:
    one, two, three = await _add(world, "tea one", "tea two", "tea three")
    handle = (await world.recall.recall(world.tenant, ALICE, "tea", k=9)).handle
    await _add(world, "tea four")
    await world.memory.delete(world.tenant, one.id)
    await world.memory.update(world.tenant, two.id, text="coffee")
    resolved = await world.recall.resolve(world.tenant, handle)
    assert [item.memory_id for item in resolved.items] == [three.id]
    await world.memory.update(world.tenant, three.id, metadata={"a": 1})
    assert (await world.recall.resolve(world.tenant, handle)).items == resolved.items


async def test_handles_are_of_one_tenant_and_expire(world: Any) -> None:
    await _add(world, "tea")
    handle = (await world.recall.recall(world.tenant, ALICE, "tea", ttl_s=60)).handle
    errors = []
    for tenant, name in ((world.other, handle), (world.tenant, "mh_" + "0" * 32)):
        with pytest.raises(NotFound) as raised:
            await world.recall.resolve(tenant, name)
        errors.append(raised.value.message)
    world.clock.advance(seconds=61)
    with pytest.raises(NotFound) as raised:
        await world.recall.resolve(world.tenant, handle)
    assert {*errors, raised.value.message} == {errors[0]}


async def test_nothing_found_is_an_empty_composition(world: Any) -> None:
    await _add(world, "tea")
    for options in ({"k": 0}, {"threshold": 1.0}, {"filters": {"a": 1}}):
        found = await world.recall.recall(world.tenant, ALICE, "quite different", **options)
        assert found.items == ()
        assert (await world.recall.resolve(world.tenant, found.handle)).items == ()
        assert (await world.recall.show(found)).text == ""


async def test_a_composition_for_once_is_not_kept(world: Any) -> None:
    await _add(world, "tea")
    composition = await world.recall.recall(world.tenant, ALICE, "tea", keep=False)
    assert len(composition.items) == 1
    with pytest.raises(NotFound):
        await world.recall.resolve(world.tenant, composition.handle)
