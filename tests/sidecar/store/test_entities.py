"""Of whom there are memories, counted from the memories."""

from datetime import timedelta
from typing import Any

import numpy as np

from inferscale_sidecar.core import Scope
from inferscale_sidecar.store import SqlStore
from inferscale_sidecar.store.records import Draft

TENANT = "default"


def _drafts(*texts: str, **fields: Any) -> list[Draft]:
    return [Draft(text, np.full(4, 0.5, dtype=np.float32), **fields) for text in texts]


async def test_entities_are_those_whose_memories_are_found(store: SqlStore, clock: Any) -> None:
    other = (await store.create_tenant("other")).id
    await store.add_memories(TENANT, Scope("alice", app_id="mail"), _drafts("one", "two"))
    soon = clock.now + timedelta(seconds=9)
    await store.add_memories(TENANT, Scope(run_id="r"), _drafts("short", expires_at=soon))
    (last,) = await store.add_memories(TENANT, Scope("alice", "guide"), _drafts("three"))
    await store.add_memories(other, Scope("bob"), _drafts("four"))
    page = await store.list_entities(TENANT, limit=9)
    assert [(e.id_name, e.id, e.memories) for e in page.entities] == [
        *(("user_id", "alice", 3), ("app_id", "mail", 2)),
        *(("run_id", "r", 1), ("agent_id", "guide", 1)),
    ]
    alice = page.entities[0]
    assert alice.created_at < alice.updated_at == last.memory.updated_at
    only = await store.list_entities(TENANT, "app_id", limit=9)
    assert (list(only.entities), only.total) == ([page.entities[1]], 1)
    clock.advance(seconds=10)
    assert (await store.list_entities(TENANT, "run_id", limit=9)).total == 0
    await store.delete_scope(TENANT, Scope(app_id="mail"))
    left = await store.list_entities(TENANT, limit=9)
    assert [(e.id, e.memories) for e in left.entities] == [("alice", 1), ("guide", 1)]


async def test_a_message_that_is_only_kept_makes_nobody(store: SqlStore) -> None:
    job = await store.open_extraction(TENANT, Scope("alice"), _drafts("hello"))
    assert (await store.list_entities(TENANT, limit=9)).total == 1
    await store.finish_extraction(TENANT, job.id, [])
    found = (await store.list_entities(TENANT, limit=9)).entities
    listed = await store.list_memories(TENANT, Scope("alice"), limit=9)
    assert sum(each.memories for each in found) == listed.total


async def test_pages_fit_together_whatever_comes_in_between(store: SqlStore) -> None:
    for number in range(5):
        scope = Scope(f"u{number}", run_id="r")
        await store.add_memories(TENANT, scope, _drafts(f"text {number}"))
    seen, after = [], None
    while True:
        page = await store.list_entities(TENANT, limit=2, after=after)
        seen += [each.id for each in page.entities]
        if (after := page.next_after) is None:
            break
        await store.add_memories(TENANT, Scope("u0"), _drafts(f"more {len(seen)}"))
    assert seen == ["u0", "r", "u1", "u2", "u3", "u4"]
    assert page.total == 6
