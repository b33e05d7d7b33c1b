"""KV items, builds and purges: what is pending, what goes stale, and that no key is lost."""

import numpy as np
import pytest

from inferscale_sidecar.core import BuildItem, KvItem, Memory, Scope
from inferscale_sidecar.store import SqlStore
from inferscale_sidecar.store.records import MAX_FAILURES, BuildCounts, Draft

ALICE = Scope(user_id="alice")
TENANT = "default"
ENGINE = "engine-1"


async def _add(store: SqlStore, *texts: str, scope: Scope = ALICE) -> list[Memory]:
    drafts = [Draft(text, np.full(4, 0.5, dtype=np.float32)) for text in texts]
    return [added.memory for added in await store.add_memories(TENANT, scope, drafts)]


def _kv(memory: Memory, key: str, *, behind: tuple[Memory, ...] = (), **other: str) -> KvItem:
    return KvItem(
        memory_id=memory.id,
        version=memory.version,
        tenant_id=memory.tenant_id,
        fingerprint=other.get("fingerprint", ENGINE),
        key=key,
        num_tokens=7,
        context_ids=tuple(each.id for each in behind),
    )


async def _pending(store: SqlStore, fingerprint: str = ENGINE) -> list[str]:
    return [item.text for item in await store.pending_builds(fingerprint, limit=100)]


async def _update(store: SqlStore, memory: Memory, text: str) -> Memory:
    changed = await store.update_memory(
        TENANT,
        memory.id,
        text=text,
        vector=np.zeros(4, dtype=np.float32),
        metadata=None,
        keep_metadata=True,
    )
    assert changed is not None
    return changed


async def test_pending_builds_come_oldest_first_with_an_owners_items_together(
    store: SqlStore,
) -> None:
    await _add(store, "a1")
    await _add(store, "b1", scope=Scope(user_id="bob"))
    await _add(store, "a2")
    assert await _pending(store) == ["a1", "a2", "b1"]
    items = await store.pending_builds(ENGINE, limit=2)
    assert [(item.owner, item.text) for item in items] == [("user:alice", "a1"), ("user:bob", "b1")]


async def test_built_items_are_ready_for_their_engine_only(store: SqlStore) -> None:
    one, two = await _add(store, "one", "two")
    assert await store.put_kv_items([_kv(one, "k1"), _kv(two, "k2", behind=(one,))]) == []
    assert await _pending(store) == []
    assert await _pending(store, "engine-2") == ["one", "two"]
    found = await store.kv_items(TENANT, ENGINE, [(one.id, 1), (two.id, 1), (two.id, 2)])
    assert found == {
        (one.id, 1): _kv(one, "k1"),
        (two.id, 1): _kv(two, "k2", behind=(one,)),
    }
    assert await store.build_counts(TENANT, ENGINE) == BuildCounts(ready=2)
    assert await store.build_counts(TENANT, "engine-2") == BuildCounts(queued=2)
    other = (await store.create_tenant("other")).id
    assert await store.kv_items(other, ENGINE, [(one.id, 1)]) == {}


async def test_states_are_shown_on_the_memories(store: SqlStore) -> None:
    ready, building, failed, queued = await _add(store, "r", "b", "f", "q")
    items = {item.text: item for item in await store.pending_builds(ENGINE, limit=9)}
    await store.put_kv_items([_kv(ready, "k")])
    await store.mark_building(ENGINE, [items["b"]])
    for _ in range(MAX_FAILURES + 1):
        await store.mark_failed(ENGINE, [items["f"]], "engine says no")
    ids = [ready.id, building.id, failed.id, queued.id]
    shown = await store.get_memories(TENANT, ids, fingerprint=ENGINE)
    assert [shown[i].kv_state for i in ids] == ["ready", "building", "failed", "queued"]
    counts = BuildCounts(queued=1, building=1, ready=1, failed=1)
    assert await store.build_counts(TENANT, ENGINE) == counts
    assert await _pending(store) == ["b", "q"]


async def test_a_failure_is_tried_again_until_it_is_hopeless(store: SqlStore) -> None:
    await _add(store, "f")
    for _ in range(MAX_FAILURES + 1):
        (item,) = await store.pending_builds(ENGINE, limit=9)
        await store.mark_building(ENGINE, [item])
        await store.mark_failed(ENGINE, [item], "engine says no")
    assert await _pending(store) == []
    assert await _pending(store, "engine-2") == ["f"]


async def test_what_is_not_its_fault_never_makes_an_item_hopeless(store: SqlStore) -> None:
    await _add(store, "f")
    for _ in range(3 * MAX_FAILURES):
        (item,) = await store.pending_builds(ENGINE, limit=9)
        await store.mark_failed(ENGINE, [item], "the bank is full", counts=False)
    assert await _pending(store) == ["f"]
    assert await store.build_counts(TENANT, ENGINE) == BuildCounts(queued=1)


async def test_what_a_crash_interrupted_is_queued_again(store: SqlStore) -> None:
    await _add(store, "b")
    await store.mark_building(ENGINE, await store.pending_builds(ENGINE, limit=9))
    assert await store.build_counts(TENANT, ENGINE) == BuildCounts(building=1)
    await store.bind_bank("another")
    assert await store.build_counts(TENANT, ENGINE) == BuildCounts(building=1)
    await store.bind_bank(ENGINE)
    assert await store.build_counts(TENANT, ENGINE) == BuildCounts(queued=1)


async def test_deleting_drops_the_item_and_all_that_stood_behind_it(store: SqlStore) -> None:
    one, two, three = await _add(store, "one", "two", "three")
    items = [_kv(one, "k1"), _kv(two, "k2", behind=(one,)), _kv(three, "k3", behind=(two,))]
    await store.put_kv_items(items)
    removed = await store.delete_memory(TENANT, one.id)
    assert removed is not None
    assert (removed.memories, removed.kv_items) == (1, 2)
    assert sorted(await store.take_purges(ENGINE, limit=10)) == ["k1", "k2"]
    assert await _pending(store) == ["two"]
    assert await store.kv_items(TENANT, ENGINE, [(three.id, 1)])


async def test_updating_drops_the_items_own_kv_only(store: SqlStore) -> None:
    one, two = await _add(store, "one", "two")
    await store.put_kv_items([_kv(one, "k1"), _kv(two, "k2", behind=(one,))])
    await _update(store, one, "uno")
    assert await store.take_purges(ENGINE, limit=10) == ["k1"]
    assert await _pending(store) == ["uno"]


async def test_purges_come_until_they_are_finished(store: SqlStore) -> None:
    one, two = await _add(store, "one", "two")
    await store.put_kv_items([_kv(one, "k1"), _kv(two, "k2")])
    await store.delete_scope(TENANT, ALICE)
    assert await store.take_purges(ENGINE, limit=1) == ["k1"]
    assert await store.take_purges(ENGINE, limit=9) == ["k1", "k2"]
    assert await store.take_purges("engine-2", limit=9) == []
    await store.finish_purges(["k1"], fingerprint="engine-2")
    await store.finish_purges(["k2"], fingerprint=ENGINE)
    assert await store.take_purges(ENGINE, limit=9) == ["k1"]


async def test_a_key_that_a_live_item_shares_is_not_purged(store: SqlStore) -> None:
    (mine,) = await _add(store, "tea")
    (bobs,) = await _add(store, "tea", scope=Scope(user_id="bob"))
    await store.put_kv_items([_kv(mine, "same"), _kv(bobs, "same")])
    await store.delete_memory(TENANT, mine.id)
    assert await store.take_purges(ENGINE, limit=9) == []
    await store.delete_memory(TENANT, bobs.id)
    assert await store.take_purges(ENGINE, limit=9) == ["same"]


async def test_a_key_that_comes_back_before_its_purge_stays(store: SqlStore) -> None:
    (first,) = await _add(store, "tea")
    await store.put_kv_items([_kv(first, "k")])
    await store.delete_memory(TENANT, first.id)
    (second,) = await _add(store, "tea")
    await store.put_kv_items([_kv(second, "k")])
    assert await store.take_purges(ENGINE, limit=9) == []


async def test_keys_that_came_back_do_not_hide_those_that_did_not(store: SqlStore) -> None:
    first = await _add(store, "tea", "coffee", "water")
    items = [_kv(memory, key) for memory, key in zip(first, ("k1", "k2", "k3"), strict=True)]
    await store.put_kv_items(items)
    await store.delete_scope(TENANT, ALICE)
    again = await _add(store, "tea", "coffee")
    await store.put_kv_items([_kv(again[0], "k1"), _kv(again[1], "k2")])
    assert await store.take_purges(ENGINE, limit=1) == ["k3"]
    assert await store.take_purges(ENGINE, limit=9) == ["k3"]
    await store.finish_purges(["k3"])
    assert await store.take_purges(ENGINE, limit=9) == []


@pytest.mark.parametrize("what", ["memory", "version", "context", "tenant"])
async def test_kv_of_what_vanished_meanwhile_is_given_back(store: SqlStore, what: str) -> None:
    context, memory = await _add(store, "context", "memory")
    item = _kv(memory, "k", behind=(context,))
    if what == "memory":
        await store.delete_memory(TENANT, memory.id)
    elif what == "context":
        await store.delete_memory(TENANT, context.id)
    elif what == "version":
        await _update(store, memory, "changed")
    else:
        item = KvItem(**{**item.__dict__, "tenant_id": "other"})
    assert await store.put_kv_items([item]) == [item]
    assert await store.kv_items(TENANT, ENGINE, [(memory.id, 1)]) == {}


async def test_building_again_under_another_key_purges_the_old_one(store: SqlStore) -> None:
    (memory,) = await _add(store, "tea")
    await store.put_kv_items([_kv(memory, "old")])
    await store.put_kv_items([_kv(memory, "new")])
    assert (await store.kv_items(TENANT, ENGINE, [(memory.id, 1)]))[memory.id, 1].key == "new"
    assert await store.take_purges(ENGINE, limit=9) == ["old"]


async def test_keys_that_the_bank_lost_are_pending_again(store: SqlStore) -> None:
    one, two = await _add(store, "one", "two")
    await store.put_kv_items([_kv(one, "k1"), _kv(two, "k2")])
    await store.forget_kv(ENGINE, ["k1", "unknown"])
    assert await _pending(store) == ["one"]
    assert await store.take_purges(ENGINE, limit=9) == []


async def test_all_keys_come_in_batches_each_once(store: SqlStore) -> None:
    memories = await _add(store, *(f"memory {i}" for i in range(1200)))
    keys = [f"{i:064x}" for i in range(1200)]
    await store.put_kv_items([_kv(m, key) for m, key in zip(memories, keys, strict=True)])
    batches = [batch async for batch in store.all_keys(ENGINE)]
    assert sorted(key for batch in batches for key in batch) == keys
    assert len(batches) > 1


async def test_previous_items_are_the_owners_just_before(store: SqlStore) -> None:
    memories = await _add(store, *(f"a{i}" for i in range(6)))
    await _add(store, "b", scope=Scope(user_id="bob"))
    await store.delete_memory(TENANT, memories[2].id)
    last = memories[5]
    before = BuildItem(last.id, 1, TENANT, "user:alice", last.text)
    found = await store.previous_items(TENANT, "user:alice", before=before, limit=4)
    assert [item.text for item in found] == ["a0", "a1", "a3", "a4"]
    first = BuildItem(memories[0].id, 1, TENANT, "user:alice", "a0")
    assert await store.previous_items(TENANT, "user:alice", before=first, limit=4) == []


async def test_what_is_dropped_after_all_was_built_is_pending_again(
    store: SqlStore, database_url: str
) -> None:
    """Also when another process drops it: the queue must not remember that it was done."""
    one, two, three = await _add(store, "one", "two", "three")
    await store.put_kv_items([_kv(one, "k1"), _kv(two, "k2", behind=(one,)), _kv(three, "k3")])
    twin = SqlStore(database_url)
    await twin.start()
    assert await _pending(store) == await _pending(twin) == []
    await twin.delete_memory(TENANT, one.id)
    assert await _pending(store) == await _pending(twin) == ["two"]
    await store.put_kv_items([_kv(two, "k4")])
    assert await _pending(store) == []
    await twin.forget_kv(ENGINE, ["k3"])
    assert await _pending(store) == ["three"]
    await _add(twin, "four")
    assert await _pending(store) == ["three", "four"]
    await twin.close()


async def test_who_showed_a_text_is_told_by_every_bank_in_use(store: SqlStore) -> None:
    for bank in (ENGINE, "engine-2"):
        await store.bind_bank(bank)
    one, two = await _add(store, "one", "two")
    await store.delete_memory(TENANT, one.id)
    for bank in (ENGINE, "engine-2"):
        assert await store.take_purges(bank, limit=9) == [one.id]
    await store.finish_purges([one.id], fingerprint=ENGINE)
    assert await store.take_purges(ENGINE, limit=9) == []
    assert await store.take_purges("engine-2", limit=9) == [one.id]
    await store.delete_scope(TENANT, ALICE)
    assert await store.take_purges(ENGINE, limit=9) == [two.id]
