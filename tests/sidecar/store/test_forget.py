"""Forgetting a user: nothing of theirs is left in any table, and nothing of others goes."""

from datetime import timedelta
from typing import Any

import numpy as np
import pytest

from inferscale_sidecar.core import Scope
from inferscale_sidecar.store import SqlStore
from inferscale_sidecar.store.block_port import BlockDraft
from inferscale_sidecar.store.document_port import DocumentDraft, Owner
from inferscale_sidecar.store.records import Draft, FactDraft, Removed, Target
from inferscale_sidecar.store.thread_port import MessageDraft

from .full_store import dump

ALICE, BOB = Scope("alice"), Scope("bob")
VECTOR = np.full(4, 0.5, dtype=np.float32)


async def keep(store: SqlStore, tenant: str, scope: Scope, word: str, clock: Any) -> None:
    """Something of every kind, each with this word in it."""
    soon = clock() + timedelta(seconds=60)
    (old, _) = await store.add_memories(
        tenant,
        scope,
        [Draft(f"{word} one", VECTOR), Draft(f"{word} two", VECTOR, expires_at=soon)],
        metadata={"said": word},
    )
    with_agent = Scope(scope.user_id, "guide")
    await store.add_memories(tenant, with_agent, [Draft(f"{word} three", VECTOR)])
    job = await store.open_extraction(tenant, scope, [Draft(f"{word} said", VECTOR)])
    fact = FactDraft(Draft(f"{word} fact", VECTOR), (0,), supersedes=(Target(old.memory.id, 1),))
    await store.finish_extraction(tenant, job.id, [fact])
    waiting = [Draft(f"{word} waits", VECTOR)]
    await store.open_extraction(tenant, scope, waiting, metadata={"said": word})
    block = await store.create_block(tenant, BlockDraft("human", word, 99, word), scope)
    await store.put_block_prefixes("model", [block.id], [f"k-{tenant}-{scope.user_id}"])
    thread = f"t-{scope.user_id}"
    await store.create_thread(tenant, thread, scope, {"said": word})
    await store.add_messages(tenant, thread, [MessageDraft("user", word)] * 2)
    await store.ask_for_summary(tenant, thread, keep=1)
    work = await store.summary_work(tenant, thread, keep=1, limit=9, max_chars=99)
    assert work is not None
    assert await store.put_summary(tenant, thread, work, word, keep=1)
    draft = DocumentDraft({"said": word}, [VECTOR], index=["said"])
    expiring = DocumentDraft({"said": word}, [], 60.0, soon)
    paths: Any = {(("a",), "k"): draft, (("a", "b"), "k"): draft, (("c",), "k"): expiring}
    await store.write_documents(Owner(tenant, scope.user_id), paths)


async def words(store: SqlStore) -> dict[str, set[str]]:
    """Which of the words are in which tables."""
    async with store._db.read() as conn:
        rows = await conn.run_sync(dump)
    return {
        word: {name for name, its in rows.items() if any(word in str(row) for row in its)}
        for word in ("SECRET", "PUBLIC", "FOREIGN")
    }


@pytest.mark.parametrize("later", [False, True])
async def test_nothing_of_a_user_is_left_and_nothing_of_others_goes(
    store: SqlStore, clock: Any, later: bool
) -> None:
    other = await store.create_tenant("other")
    await keep(store, "default", ALICE, "SECRET", clock)
    await keep(store, "default", BOB, "PUBLIC", clock)
    await keep(store, other.id, ALICE, "FOREIGN", clock)
    before = await words(store)
    assert before["SECRET"] == before["PUBLIC"] == before["FOREIGN"]
    assert len(before["SECRET"]) == 9
    if later:
        clock.advance(seconds=61)  # what has expired, but was not swept, goes too
    removed = await store.delete_scope("default", ALICE)
    assert removed == Removed(
        memories=5,
        kv_items=0,
        sources=1,
        embeddings=6,
        blocks=1,
        threads=1,
        messages=2,
        documents=3,
    )
    after = await words(store)
    assert after["SECRET"] == set()
    assert (after["PUBLIC"], after["FOREIGN"]) == (before["PUBLIC"], before["FOREIGN"])
    assert len(await store.take_purges("model", limit=9)) == 1


async def test_a_narrower_scope_keeps_the_users_documents(store: SqlStore, clock: Any) -> None:
    await keep(store, "default", ALICE, "SECRET", clock)
    shared: Any = {(("a",), "k"): DocumentDraft({"of": "all"})}
    await store.write_documents(Owner("default"), shared)
    narrower = (Scope("alice", "guide"), Scope("alice", run_id="t-alice"), Scope(None, "guide"))
    for scope in (*narrower, Scope("alice", app_id="mail")):
        assert (await store.delete_scope("default", scope)).documents == 0
    assert (await store.delete_scope("default", ALICE)).documents == 3
    assert (await store.usage("default")).documents == 1
