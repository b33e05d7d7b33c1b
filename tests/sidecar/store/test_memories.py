"""Memories in SQL: adding, changing, deleting, and what must be gone afterwards."""

import asyncio
from pathlib import Path

import numpy as np
import pytest

from inferscale_sidecar.core import Memory, Scope
from inferscale_sidecar.errors import Conflict, NotFound
from inferscale_sidecar.store import SqlStore
from inferscale_sidecar.store.records import Added, Draft, IdempotencyKey

ALICE = Scope(user_id="alice")
TENANT = "default"


def _draft(text: str) -> Draft:
    return Draft(text, np.full(4, 0.5, dtype=np.float32))


async def _add(store: SqlStore, *texts: str, scope: Scope = ALICE) -> list[Memory]:
    added = await store.add_memories(TENANT, scope, [_draft(text) for text in texts])
    return [each.memory for each in added]


async def test_what_was_added_is_there_in_the_order_it_came(store: SqlStore) -> None:
    added = await _add(store, "one", "two", "three")
    page = await store.list_memories(TENANT, ALICE, limit=10)
    assert [memory.text for memory in page.memories] == ["three", "two", "one"]
    assert list(page.memories) == added[::-1]
    assert sorted(added, key=lambda memory: memory.created_at) == added


async def test_equal_text_in_the_same_scope_is_one_memory(store: SqlStore) -> None:
    (first,) = await _add(store, "tea")
    results = await store.add_memories(
        TENANT, ALICE, [_draft("tea"), _draft("milk"), _draft("tea")]
    )
    assert [result.event for result in results] == ["NOOP", "ADD", "NOOP"]
    assert results[0] == results[2] == Added(first, "NOOP")


@pytest.mark.parametrize("text", ["Tea", "tea ", "t\u00e9a", "te\u0301a"])
async def test_text_that_differs_at_all_is_another_memory(store: SqlStore, text: str) -> None:
    await _add(store, "tea", "téa" if text != "téa" else "x")
    added = await store.add_memories(TENANT, ALICE, [_draft(text)])
    assert added[0].event == "ADD"


@pytest.mark.parametrize(
    "scope",
    [
        Scope(user_id="bob"),
        Scope(user_id="alice", agent_id="a"),
        Scope(user_id="alice", run_id="a"),
        Scope(user_id="alice", app_id="a"),
        Scope(agent_id="alice"),
        Scope(run_id="alice"),
        Scope(app_id="alice"),
    ],
)
async def test_equal_text_in_any_other_scope_is_another_memory(
    store: SqlStore, scope: Scope
) -> None:
    await _add(store, "tea")
    added = await store.add_memories(TENANT, scope, [_draft("tea")])
    assert added[0].event == "ADD"


async def test_concurrent_writers_of_one_text_make_one_memory(store: SqlStore) -> None:
    results = await asyncio.gather(*(_add(store, "tea", "milk") for _ in range(8)))
    assert len({memory.id for memories in results for memory in memories}) == 2
    assert (await store.list_memories(TENANT, ALICE, limit=10)).total == 2


async def test_a_batch_is_all_or_nothing(store: SqlStore) -> None:
    broken = Draft("second", None)  # type: ignore[arg-type]  # fails when its vector is written
    with pytest.raises(AttributeError):
        await store.add_memories(TENANT, ALICE, [_draft("first"), broken])
    assert (await store.list_memories(TENANT, ALICE, limit=10)).total == 0


async def test_pages_cover_the_list_once_and_survive_writes_between(store: SqlStore) -> None:
    await _add(store, *(f"memory {i}" for i in range(10)))
    seen, before = [], None
    while True:
        page = await store.list_memories(TENANT, ALICE, limit=3, before=before)
        seen += [memory.text for memory in page.memories]
        await _add(store, f"written after page {len(seen)}")
        if (before := page.next_before) is None:
            break
    assert seen == [f"memory {i}" for i in reversed(range(10))]


async def test_an_exactly_full_page_is_the_last(store: SqlStore) -> None:
    await _add(store, "one", "two")
    assert (await store.list_memories(TENANT, ALICE, limit=2)).next_before is None


async def test_ids_of_a_scope_are_anded(store: SqlStore) -> None:
    await _add(store, "plain")
    await _add(store, "with agent", scope=Scope(user_id="alice", agent_id="a"))
    await _add(store, "of the agent", scope=Scope(agent_id="a"))

    async def texts(scope: Scope) -> set[str]:
        page = await store.list_memories(TENANT, scope, limit=10)
        return {memory.text for memory in page.memories}

    assert await texts(ALICE) == {"plain", "with agent"}
    assert await texts(Scope(agent_id="a")) == {"with agent", "of the agent"}
    assert await texts(Scope(user_id="alice", agent_id="a")) == {"with agent"}
    assert await texts(Scope(run_id="a")) == set()
    assert await texts(Scope(user_id="*")) == set()


async def test_an_empty_scope_is_never_everything(store: SqlStore) -> None:
    with pytest.raises(ValueError, match="at least one"):
        await store.delete_scope(TENANT, Scope())


async def test_unknown_tenants_are_refused(store: SqlStore) -> None:
    with pytest.raises(NotFound):
        await store.add_memories("nobody", ALICE, [_draft("tea")])


async def test_update_makes_a_version_and_keeps_history(store: SqlStore) -> None:
    (memory,) = await _add(store, "likes tea")
    changed = await store.update_memory(
        TENANT,
        memory.id,
        text="likes coffee",
        vector=np.zeros(4, dtype=np.float32),
        metadata=None,
        keep_metadata=True,
    )
    assert changed is not None
    assert (changed.text, changed.version) == ("likes coffee", 2)
    assert changed.created_at == memory.created_at < changed.updated_at
    events = await store.history(TENANT, memory.id)
    assert [(e.event, e.version, e.text) for e in events] == [
        ("ADD", 1, "likes tea"),
        ("UPDATE", 2, "likes coffee"),
    ]


async def test_update_of_metadata_keeps_the_version(store: SqlStore) -> None:
    (memory,) = await _add(store, "tea")
    changed = await store.update_memory(
        TENANT, memory.id, text=None, vector=None, metadata={"a": 1}, keep_metadata=False
    )
    assert changed is not None
    assert (changed.version, changed.metadata) == (1, {"a": 1})


async def test_update_to_a_text_that_is_there_is_a_conflict(store: SqlStore) -> None:
    one, two = await _add(store, "one", "two")
    with pytest.raises(Conflict, match=one.id):
        await store.update_memory(
            TENANT,
            two.id,
            text="one",
            vector=np.zeros(4, dtype=np.float32),
            metadata=None,
            keep_metadata=True,
        )
    assert (await store.get_memories(TENANT, [two.id]))[two.id].text == "two"


async def test_delete_leaves_events_but_no_text_in_the_file(
    store: SqlStore, database_url: str
) -> None:
    canary = "canary-7f3a-was-here"
    (memory,) = await _add(store, canary)
    removed = await store.delete_memory(TENANT, memory.id)
    assert removed is not None
    assert removed.memories == 1
    assert await store.get_memories(TENANT, [memory.id]) == {}
    events = await store.history(TENANT, memory.id)
    assert [(e.event, e.text) for e in events] == [("ADD", None), ("DELETE", None)]
    assert await store.delete_memory(TENANT, memory.id) is None
    await store.close()  # the last connection folds the log into the file
    path = Path(database_url.removeprefix("sqlite+aiosqlite:///"))
    files = [path, path.with_name(path.name + "-wal")]
    assert not any(canary.encode() in file.read_bytes() for file in files if file.exists())


async def test_a_deleted_text_can_be_added_again_under_a_new_id(store: SqlStore) -> None:
    (first,) = await _add(store, "tea")
    await store.delete_memory(TENANT, first.id)
    (second,) = await _add(store, "tea")
    assert second.id != first.id


async def test_delete_by_scope_takes_the_scope_and_nothing_else(store: SqlStore) -> None:
    await _add(store, *(f"memory {i}" for i in range(700)))
    await _add(store, "bob's", scope=Scope(user_id="bob"))
    removed = await store.delete_scope(TENANT, ALICE)
    assert removed.memories == 700
    assert (await store.list_memories(TENANT, ALICE, limit=10)).total == 0
    assert (await store.list_memories(TENANT, Scope(user_id="bob"), limit=10)).total == 1


async def test_no_method_reaches_another_tenants_memory(store: SqlStore) -> None:
    (memory,) = await _add(store, "secret")
    other = (await store.create_tenant("other")).id
    vector = np.zeros(4, dtype=np.float32)
    assert await store.get_memories(other, [memory.id]) == {}
    assert await store.delete_memory(other, memory.id) is None
    assert await store.history(other, memory.id) == []
    assert await store.live_versions(other, [memory.id]) == {}
    assert (await store.delete_scope(other, ALICE)).memories == 0
    assert (await store.list_memories(other, ALICE, limit=10)).total == 0
    assert (await store.changes(other, ALICE, since=None)).rows == []
    changed = await store.update_memory(
        other, memory.id, text="x", vector=vector, metadata=None, keep_metadata=True
    )
    assert changed is None
    assert (await store.get_memories(TENANT, [memory.id]))[memory.id] == memory


async def test_changes_tell_what_happened_since(store: SqlStore) -> None:
    one, two = await _add(store, "one", "two")
    start = await store.changes(TENANT, ALICE, since=None)
    assert [row.memory_id for row in start.rows] == [one.id, two.id]
    assert (await store.changes(TENANT, ALICE, since=start.seq)).rows == ()
    await store.delete_memory(TENANT, one.id)
    await store.update_memory(
        TENANT,
        two.id,
        text="zwei",
        vector=np.ones(4, dtype=np.float32),
        metadata=None,
        keep_metadata=True,
    )
    await _add(store, "not alice's", scope=Scope(user_id="bob"))
    later = await store.changes(TENANT, ALICE, since=start.seq)
    assert [(row.memory_id, row.version) for row in later.rows] == [(two.id, 2)]
    assert np.array_equal(later.rows[0].vector, np.ones(4))
    assert list(later.deleted) == [one.id]


async def test_an_idempotency_key_replays_the_first_result(store: SqlStore) -> None:
    key = IdempotencyKey("key", "digest")

    async def add(key: IdempotencyKey) -> list[Added]:
        return await store.add_memories(TENANT, ALICE, [_draft("tea")], idempotency=key)

    first = await add(key)
    assert await add(key) == first == await store.replay(TENANT, key)
    assert first[0].event == "ADD"
    with pytest.raises(Conflict, match="Idempotency-Key"):
        await add(IdempotencyKey("key", "another digest"))
    other = (await store.create_tenant("other")).id
    assert await store.replay(other, key) is None
    await store.delete_memory(TENANT, first[0].memory.id)
    (replayed,) = await add(key)
    assert (replayed.memory.id, replayed.memory.text) == (first[0].memory.id, "")
