"""Pinned blocks in SQL: where they are shown, what an edit is, and what a deletion leaves."""

import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import func, select, text

from inferscale_sidecar.core import Block, Composition, PinnedBlock, Scope
from inferscale_sidecar.errors import Conflict, InvalidInput
from inferscale_sidecar.store import SqlStore, migrations
from inferscale_sidecar.store.block_port import BlockDraft
from inferscale_sidecar.store.block_tables import block_prefixes

TENANT = "default"
ALICE, BOB = Scope("alice"), Scope("bob")
HELPER = Scope(agent_id="helper")
BOTH = Scope("alice", "helper")


async def _create(store: SqlStore, scope: Scope | None, label: str = "human", value: str = "x"):
    return await store.create_block(TENANT, BlockDraft(label, value, 100), scope)


async def _handle(store: SqlStore, clock: Any, scope: Scope, *blocks: Block) -> str:
    now = clock()
    pinned = tuple(PinnedBlock(b.id, b.version, b.label, b.value) for b in blocks)
    composition = Composition("mh_1", TENANT, scope, (), now, now + timedelta(hours=1), pinned)
    await store.put_handle(composition)
    return composition.handle


async def _values(store: SqlStore, handle: str) -> list[str]:
    found = await store.get_handle(TENANT, handle)
    assert found is not None
    return [block.value for block in found.blocks]


async def test_a_block_is_shown_where_all_ids_of_an_attachment_are(store: SqlStore) -> None:
    human = await _create(store, ALICE, "human")
    persona = await _create(store, HELPER, "persona")
    ours = await _create(store, BOTH, "ours")
    loose = await _create(store, None, "loose")

    async def shown(scope: Scope) -> list[str]:
        return [block.id for block in await store.pinned_blocks(TENANT, scope)]

    assert await shown(ALICE) == [human.id]
    assert await shown(HELPER) == [persona.id]
    # What many requests share comes first.
    assert await shown(BOTH) == [persona.id, human.id, ours.id]
    assert await shown(Scope("alice", "helper", "run-1")) == [persona.id, human.id, ours.id]
    assert await shown(Scope("bob", "helper")) == [persona.id]
    assert await shown(Scope(run_id="run-1")) == []
    assert await store.pinned_blocks((await store.create_tenant("other")).id, ALICE) == []
    assert (await store.get_block(TENANT, loose.id)).scopes == ()


async def test_an_apps_block_is_shown_first_and_in_that_app_alone(store: SqlStore) -> None:
    human = await _create(store, ALICE, "human")
    rules = await _create(store, Scope(app_id="mail"), "rules")
    ours = await _create(store, Scope("alice", app_id="mail"), "ours")

    async def shown(scope: Scope) -> list[str]:
        return [block.id for block in await store.pinned_blocks(TENANT, scope)]

    assert await shown(Scope("alice", app_id="mail")) == [rules.id, human.id, ours.id]
    assert await shown(Scope("bob", app_id="mail")) == [rules.id]
    assert await shown(ALICE) == await shown(Scope("alice", app_id="shop")) == [human.id]
    removed = await store.delete_scope(TENANT, Scope(app_id="mail"))
    assert removed.blocks == 2
    assert await shown(Scope("alice", app_id="mail")) == [human.id]


async def test_one_block_is_shared_by_attaching_it(store: SqlStore) -> None:
    block = await _create(store, ALICE)
    shared = await store.attach_block(TENANT, block.id, BOB)
    assert shared == await store.attach_block(TENANT, block.id, BOB)
    assert shared.scopes == (ALICE, BOB)
    assert await store.pinned_blocks(TENANT, BOB) == [shared]
    await store.edit_block(TENANT, block.id, lambda b: replace(b, value="new"))
    assert [b.value for b in await store.pinned_blocks(TENANT, ALICE)] == ["new"]
    assert (await store.detach_block(TENANT, block.id, ALICE)).scopes == (BOB,)
    assert await store.pinned_blocks(TENANT, ALICE) == []
    assert await store.attach_block(TENANT, "block-none", BOB) is None


async def test_a_label_names_one_block_in_a_scope(store: SqlStore) -> None:
    one, two = await _create(store, ALICE), await _create(store, BOB)
    free = await _create(store, None)
    for attempt in (
        _create(store, ALICE),
        store.attach_block(TENANT, two.id, ALICE),
        store.attach_block(TENANT, free.id, BOB),
    ):
        with pytest.raises(Conflict, match="human"):
            await attempt
    three = await _create(store, ALICE, "notes")
    with pytest.raises(Conflict, match=one.id):
        await store.edit_block(TENANT, three.id, lambda b: replace(b, label="human"))
    assert (await store.get_block(TENANT, three.id)).label == "notes"
    await store.edit_block(TENANT, one.id, lambda b: replace(b, label="me"))
    renamed = await store.edit_block(TENANT, three.id, lambda b: replace(b, label="human"))
    assert renamed.version == 2


async def test_only_what_is_shown_makes_a_version(store: SqlStore) -> None:
    block = await _create(store, ALICE)
    same = await store.edit_block(
        TENANT, block.id, lambda b: replace(b, limit=7, metadata={"a": 1})
    )
    assert (same.version, same.limit, same.metadata) == (1, 7, {"a": 1})
    changed = await store.edit_block(TENANT, block.id, lambda b: replace(b, value="y"))
    assert changed.version == 2
    history = await store.block_history(TENANT, block.id)
    assert [(e.version, e.event, e.value) for e in history] == [(1, "ADD", "x"), (2, "UPDATE", "y")]


async def test_edits_at_once_all_take_effect(store: SqlStore, database_url: str) -> None:
    block = await _create(store, ALICE, value="")
    second = SqlStore(database_url)
    stores = [store, second] * 5
    await asyncio.gather(
        *(
            each.edit_block(TENANT, block.id, lambda b, n=n: replace(b, value=f"{b.value}<{n}>"))
            for n, each in enumerate(stores)
        )
    )
    await second.close()
    final = await store.get_block(TENANT, block.id)
    assert final.version == 11
    assert sorted(final.value.strip("<>").split("><"), key=int) == [str(n) for n in range(10)]


async def test_a_handle_keeps_the_old_version_but_nothing_deleted_or_detached(
    store: SqlStore, clock: Any
) -> None:
    one, two = await _create(store, ALICE, "one", "a"), await _create(store, ALICE, "two", "b")
    three = await _create(store, HELPER, "three", "c")
    handle = await _handle(store, clock, BOTH, three, one, two)
    await store.edit_block(TENANT, one.id, lambda b: replace(b, value="changed"))
    assert await _values(store, handle) == ["c", "a", "b"]
    await store.detach_block(TENANT, two.id, ALICE)
    assert await _values(store, handle) == ["c", "a"]
    removed = await store.delete_block(TENANT, one.id)
    assert (removed.blocks, removed.handle_items) == (1, 1)
    assert await _values(store, handle) == ["c"]
    other = await store.create_tenant("other")
    assert await store.delete_block(other.id, three.id) is None


async def test_a_deletion_leaves_no_text_and_purges_the_prefixes(
    store: SqlStore, tmp_path: Any
) -> None:
    block = await _create(store, ALICE, value="SECRET-1")
    await store.edit_block(TENANT, block.id, lambda b: replace(b, description="SECRET-2"))
    await store.put_block_prefixes("fp", [block.id], ["k1", "k2"])
    await store.put_block_prefixes("fp", [block.id], ["k2"])
    await store.delete_block(TENANT, block.id)
    history = await store.block_history(TENANT, block.id)
    assert [e.event for e in history] == ["ADD", "UPDATE", "DELETE"]
    assert {(e.label, e.value, e.description) for e in history} == {(None, None, None)}
    assert sorted(await store.take_purges("fp", limit=9)) == ["k1", "k2"]
    await store.finish_purges(["k1", "k2"])
    # A prefix that was being built meanwhile goes at once.
    await store.put_block_prefixes("fp", [block.id], ["k3"])
    assert await store.take_purges("fp", limit=9) == ["k3"]
    assert await store.delete_block(TENANT, block.id) is None
    await store.close()
    files = b"".join(path.read_bytes() for path in tmp_path.glob("memory.db*"))
    assert b"SECRET-" not in files
    await store.start()


async def test_with_a_scope_go_its_blocks_unless_they_are_shared(
    store: SqlStore, clock: Any
) -> None:
    mine, ours = await _create(store, ALICE, "mine"), await _create(store, BOTH, "ours")
    shared, bobs = await _create(store, ALICE, "shared"), await _create(store, BOB, "bobs")
    await store.attach_block(TENANT, shared.id, HELPER)
    handle = await _handle(store, clock, ALICE, mine, shared)
    removed = await store.delete_scope(TENANT, ALICE)
    assert (removed.blocks, removed.detached_blocks) == (2, 1)
    left = await store.list_blocks(TENANT, limit=9)
    assert [(b.label, b.scopes) for b in left.blocks] == [("shared", (HELPER,)), ("bobs", (BOB,))]
    assert bobs in left.blocks and ours not in left.blocks
    assert await _values(store, handle) == []
    again = await store.delete_scope(TENANT, ALICE)
    assert (again.blocks, again.detached_blocks) == (0, 0)


async def test_lists_page_through_a_scope_or_the_tenant(store: SqlStore) -> None:
    for n in range(5):
        await _create(store, ALICE if n % 2 else BOTH, f"b{n}")
    await _create(store, BOB, "b9")

    async def pages(scope: Scope | None) -> list[str]:
        labels, after = [], None
        while True:
            page = await store.list_blocks(TENANT, scope, limit=2, after=after)
            labels += [block.label for block in page.blocks]
            if (after := page.next_after) is None:
                assert page.total == len(labels)
                return labels

    assert await pages(None) == ["b0", "b1", "b2", "b3", "b4", "b9"]
    assert await pages(ALICE) == ["b0", "b1", "b2", "b3", "b4"]
    assert await pages(HELPER) == ["b0", "b2", "b4"]
    page = await store.list_blocks(TENANT, ALICE, label="b3", limit=2)
    assert [b.label for b in page.blocks] == ["b3"]
    with pytest.raises(ValueError, match="at least one"):
        await store.list_blocks(TENANT, Scope(), limit=2)


async def test_the_migration_down_leaves_no_kv_of_blocks(store: SqlStore) -> None:
    block = await _create(store, ALICE)
    await store.put_block_prefixes("fp", [block.id], ["k1"])
    async with store._db.write() as conn:
        assert await conn.scalar(select(func.count()).select_from(block_prefixes)) == 1
        await conn.run_sync(migrations.downgrade, "0005")
        keys = await conn.scalars(text("SELECT key FROM purges"))
        assert keys.all() == ["k1"]
        await conn.run_sync(migrations.upgrade)
    assert (await store.list_blocks(TENANT, limit=9)).total == 0


async def test_an_id_that_no_database_can_hold_is_refused(store: SqlStore) -> None:
    with pytest.raises(InvalidInput, match="NUL"):
        await store.get_block(TENANT, "block-\x00")
