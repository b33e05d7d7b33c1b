"""Handles: what they keep, what drops out, and who may have them."""

from datetime import timedelta
from typing import Any

import numpy as np

from inferscale_sidecar.core import Composition, CompositionItem, Memory, Scope
from inferscale_sidecar.store import SqlStore
from inferscale_sidecar.store.records import Draft

ALICE = Scope(user_id="alice")
TENANT = "default"


async def _composition(store: SqlStore, clock: Any, *texts: str) -> Composition:
    drafts = [Draft(text, np.full(4, 0.5, dtype=np.float32)) for text in texts]
    added = await store.add_memories(TENANT, ALICE, drafts)
    memories: list[Memory] = [each.memory for each in added]
    now = clock()
    composition = Composition(
        handle="mh_1",
        tenant_id=TENANT,
        scope=ALICE,
        items=tuple(CompositionItem(m.id, 1, m.text, 0.25) for m in memories),
        created_at=now,
        expires_at=now + timedelta(hours=1),
    )
    await store.put_handle(composition)
    return composition


async def test_a_handle_gives_back_what_was_put(store: SqlStore, clock: Any) -> None:
    composition = await _composition(store, clock, "one", "two")
    assert await store.get_handle(TENANT, "mh_1") == composition
    assert await store.count_handles(clock()) == 1


async def test_unknown_foreign_and_expired_handles_look_the_same(
    store: SqlStore, clock: Any
) -> None:
    await _composition(store, clock, "one")
    other = await store.create_tenant("other")
    assert await store.get_handle(TENANT, "mh_2") is None
    assert await store.get_handle(other.id, "mh_1") is None
    clock.advance(hours=1)
    assert await store.get_handle(TENANT, "mh_1") is None
    assert await store.count_handles(clock()) == 0


async def test_deleted_and_updated_memories_drop_out(store: SqlStore, clock: Any) -> None:
    composition = await _composition(store, clock, "one", "two", "three")
    one, two, three = composition.items
    await store.delete_memory(TENANT, one.memory_id)
    await store.update_memory(
        TENANT,
        two.memory_id,
        text="changed",
        vector=np.zeros(4, dtype=np.float32),
        metadata=None,
        keep_metadata=True,
    )
    found = await store.get_handle(TENANT, "mh_1")
    assert found is not None
    assert found.items == (three,)


async def test_deleting_all_leaves_an_empty_handle(store: SqlStore, clock: Any) -> None:
    await _composition(store, clock, "one", "two")
    await store.delete_scope(TENANT, ALICE)
    found = await store.get_handle(TENANT, "mh_1")
    assert found is not None
    assert found.items == ()


async def test_expired_handles_are_swept_by_the_next_one(store: SqlStore, clock: Any) -> None:
    old = await _composition(store, clock, "one")
    clock.advance(hours=2)
    new = Composition("mh_2", TENANT, ALICE, (), clock(), clock() + timedelta(hours=1))
    await store.put_handle(new)
    assert await store.count_handles(old.created_at) == 1
