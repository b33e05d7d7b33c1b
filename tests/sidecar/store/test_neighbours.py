"""Neighbours by meaning, and dropping what depends on company."""

import numpy as np
import pytest

from inferscale_sidecar.core import BuildItem, Memory, Scope
from inferscale_sidecar.store import SqlStore
from inferscale_sidecar.store.records import Draft

from .test_kv import ALICE, ENGINE, TENANT, _kv, _pending


async def _add(store: SqlStore, *angles: float, scope: Scope = ALICE) -> list[BuildItem]:
    """Memories whose vectors point to these angles (degrees)."""
    vectors = [np.array([np.cos(a), np.sin(a)], np.float32) for a in np.radians(angles)]
    drafts = [Draft(f"at {a}", v) for a, v in zip(angles, vectors, strict=True)]
    added = await store.add_memories(TENANT, scope, drafts)
    return [_build_item(each.memory) for each in added]


def _build_item(memory: Memory) -> BuildItem:
    return BuildItem(memory.id, memory.version, TENANT, memory.scope.owner, memory.text)


async def test_the_closest_come_best_last_without_the_items_themselves(store: SqlStore) -> None:
    items = await _add(store, 0, 80, 10, 40, 5)
    await _add(store, 1, scope=Scope(user_id="bob"))
    found = await store.similar_items([items[0]], limit=3)
    assert [item.text for item in found] == ["at 40", "at 10", "at 5"]
    found = await store.similar_items([items[1], items[3]], limit=1)
    assert [item.text for item in found] == ["at 10"]
    assert found == [items[2]]


@pytest.mark.parametrize("limit", [0, 5])
async def test_an_only_item_has_no_neighbours(store: SqlStore, limit: int) -> None:
    (item,) = await _add(store, 0)
    assert await store.similar_items([item], limit=limit) == []


async def test_isolation_drops_only_what_stood_behind_others(store: SqlStore) -> None:
    one, two = await store.add_memories(
        TENANT, ALICE, [Draft(t, np.ones(2, np.float32)) for t in ("one", "two")]
    )
    await store.put_kv_items([_kv(one.memory, "k1"), _kv(two.memory, "k2", behind=(one.memory,))])
    assert await store.drop_dependent_kv("another engine") == 0
    assert await store.drop_dependent_kv(ENGINE) == 1
    assert await _pending(store) == ["two"]
    assert await store.take_purges(ENGINE, limit=9) == ["k2"]
    assert await store.drop_dependent_kv(ENGINE) == 0


async def test_early_items_tell_how_much_company_their_kv_had(store: SqlStore) -> None:
    items = await _add(store, 0, 1, 2, 3)
    await _add(store, 4, scope=Scope(user_id="bob"))
    memories = await store.get_memories(TENANT, [item.memory_id for item in items])
    one, two, three, _ = (memories[item.memory_id] for item in items)
    await store.put_kv_items([_kv(one, "k1"), _kv(three, "k3", behind=(one, two))])
    early = await store.early_items(TENANT, items[0].owner, ENGINE, limit=3)
    assert [(e.item, e.neighbours) for e in early] == [
        (items[0], 0),
        (items[1], None),
        (items[2], 2),
    ]
    elsewhere = await store.early_items(TENANT, items[0].owner, "another engine", limit=1)
    assert [e.neighbours for e in elsewhere] == [None]
