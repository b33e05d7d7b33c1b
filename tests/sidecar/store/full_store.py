"""A store with something in every table, and what its tables hold."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
from sqlalchemy import Connection, MetaData, select

from inferscale_sidecar.core import (
    Composition,
    CompositionItem,
    KvItem,
    PinnedBlock,
    Scope,
    Tail,
)
from inferscale_sidecar.store import SqlStore
from inferscale_sidecar.store.block_port import BlockDraft
from inferscale_sidecar.store.document_port import DocumentDraft, Owner
from inferscale_sidecar.store.records import Draft, FactDraft, IdempotencyKey, Target
from inferscale_sidecar.store.thread_port import MessageDraft

ALICE = Scope(user_id="alice")
TENANT = "default"
NOW = datetime(2026, 1, 1, tzinfo=UTC)
Rows = dict[str, list[dict[str, Any]]]


def _draft(text: str, **fields: Any) -> Draft:
    return Draft(text, np.full(4, 0.5, dtype=np.float32), **fields)


async def fill(store: SqlStore) -> dict[str, str]:
    """Write something of every kind; ids of memories by what became of them."""
    told, replaced, deleted = await store.add_memories(
        TENANT,
        ALICE,
        [_draft("likes tea", role="user", said_at=NOW), _draft("lives in Rome"), _draft("gone")],
        metadata={"b": [1, None], "a": "ü"},
        idempotency=IdempotencyKey("key", "digest"),
    )
    ids = {"live": told.memory.id, "superseded": replaced.memory.id}
    await _built(store, ids["live"], ids["superseded"])
    await store.delete_memory(TENANT, deleted.memory.id)
    job = await store.open_extraction(TENANT, ALICE, [_draft("I moved to Oslo")])
    assert job.turns[0] is not None
    ids["source"] = job.turns[0].id
    fact = FactDraft(_draft("lives in Oslo"), (0,), supersedes=(Target(ids["superseded"], 1),))
    ids["fact"] = (await store.finish_extraction(TENANT, job.id, [fact]))[0].memory.id
    await store.open_extraction(TENANT, Scope(agent_id="guide"), [_draft("I like maps")])
    await store.create_key(
        TENANT, name="app", prefix="sk", key_hash="h" * 64, scopes=frozenset({"read"})
    )
    await store.bind_embedder("small", 4)
    await store.set_limits(TENANT, {"memories": 1000})
    await store.put_kv_items(
        [KvItem(ids["fact"], 1, TENANT, "model@bank", "k4", 3, (ids["live"],))]
    )
    await store.mark_failed("model", await store.pending_builds("model", limit=9), "too hot")
    await _keep(store, ids["live"])
    await store.purge_later("model@bank", ["k8"], TENANT, Tail(ALICE, NOW, 5e9))
    await store.delete_scope(TENANT, Scope(run_id="nobody"))
    return ids


async def _built(store: SqlStore, first: str, second: str) -> None:
    kv = KvItem(first, 1, TENANT, "model@bank", "k1", 3)
    await store.bind_bank("model@bank")
    await store.put_kv_items([kv, KvItem(second, 1, TENANT, "model", "k2", 3, (first,))])


async def _keep(store: SqlStore, memory_id: str) -> None:
    """A block, a document, and a handle with both kinds of items."""
    block = await store.create_block(TENANT, BlockDraft("human", "Ann", 99), ALICE)
    await store.put_block_prefixes("model@bank", [block.id], ["k3"])
    later = NOW + timedelta(days=365_000)
    composition = Composition(
        handle="mh_1",
        tenant_id=TENANT,
        scope=ALICE,
        items=(CompositionItem(memory_id, 1, "likes tea", 0.25),),
        created_at=NOW,
        expires_at=later,
        blocks=(PinnedBlock(block.id, 1, "human", "Ann"),),
    )
    await store.put_handle(composition)
    past = replace(composition, handle="mh_2", as_of=NOW)
    await store.put_handle(past)
    await store.create_thread(TENANT, "thread", Scope(user_id="alice"), None)
    await store.add_messages(TENANT, "thread", [MessageDraft("user", "hello")] * 2)
    await store.ask_for_summary(TENANT, "thread", keep=1)
    path = (("a", "b"), "key")
    document = DocumentDraft({"x": 1}, (np.ones(4, np.float32),), 5e9, later, ["x"])
    await store.write_documents(Owner(TENANT, "alice"), {path: document})


async def fill_app(store: SqlStore, memory_id: str) -> None:
    """Something of an app in every table where it may be; `memory_id` is encoded behind it, too."""
    mail = Scope("alice", app_id="mail")
    drafts = [_draft("likes mail"), _draft("to be made untrue")]
    first, second = await store.add_memories(TENANT, mail, drafts)
    (alone,) = await store.add_memories(TENANT, Scope(app_id="mail"), [_draft("likes tea")])
    items = [
        KvItem(first.memory.id, 1, TENANT, "model@bank", "k5", 3),
        KvItem(memory_id, 1, TENANT, "other", "k6", 3, (first.memory.id,)),
    ]
    await store.put_kv_items(items)
    pending = await store.pending_builds("model", limit=99)
    theirs = [each for each in pending if each.memory_id == alone.memory.id]
    await store.mark_failed("model", theirs, "too hot")
    job = await store.open_extraction(TENANT, mail, [_draft("I moved to Rome")])
    fact = FactDraft(_draft("lives in Rome"), (0,), supersedes=(Target(second.memory.id, 1),))
    await store.finish_extraction(TENANT, job.id, [fact])
    await store.open_extraction(TENANT, Scope(app_id="mail"), [_draft("I like maps")])
    block = await store.create_block(TENANT, BlockDraft("rules", "Be kind", 99), mail)
    await store.put_block_prefixes("model@bank", [block.id], ["k7"])
    item = CompositionItem(alone.memory.id, 1, "likes tea", 0.25)
    pinned = PinnedBlock(block.id, 1, "rules", "Be kind")
    later = NOW + timedelta(days=365_000)
    handle = Composition("mh_3", TENANT, mail, (item,), NOW, later, (pinned,))
    await store.put_handle(handle)
    await store.create_thread(TENANT, "mails", mail, None)
    await store.add_messages(TENANT, "mails", [MessageDraft("user", "hello")] * 2)
    await store.ask_for_summary(TENANT, "mails", keep=1)


def dump(connection: Connection) -> Rows:
    """All rows of all tables, with those columns that the database has now."""
    there = MetaData()
    there.reflect(connection)
    found: Rows = {}
    for table in there.sorted_tables:
        if table.name != "alembic_version":
            rows = connection.execute(select(table)).mappings().all()
            found[table.name] = [dict(row) for row in rows]
    return found
