"""Threads in SQL: messages in order, kept once, and gone with their thread or their user."""

from datetime import UTC, datetime
from typing import Any

import pytest

from inferscale_sidecar.core import Scope
from inferscale_sidecar.errors import Conflict
from inferscale_sidecar.store import SqlStore, migrations
from inferscale_sidecar.store.thread_port import MessageDraft

TENANT = "default"
ALICE = Scope("alice")


def said(*texts: str) -> list[MessageDraft]:
    return [MessageDraft("user", text) for text in texts]


async def _texts(store: SqlStore, thread: str, **options: Any) -> list[str]:
    page = await store.list_messages(TENANT, thread, limit=99, **options)
    assert page is not None
    return [message.content for message in page.messages]


async def test_messages_come_back_as_they_were_in_either_order(store: SqlStore) -> None:
    thread = await store.create_thread(TENANT, "t1", Scope("alice", "a"), {"m": 1})
    assert (thread.scope, thread.metadata) == (Scope("alice", "a", "t1"), {"m": 1})
    when = datetime(2026, 1, 1, tzinfo=UTC)
    first = await store.add_messages(
        TENANT, "t1", [MessageDraft("user", "one", "Al", when, {"n": 1}), *said("two", "one")]
    )
    assert [(m.content, m.name, m.said_at, m.metadata) for m in first[:2]] == [
        ("one", "Al", when, {"n": 1}),
        ("two", None, None, None),
    ]
    await store.add_messages(TENANT, "t1", said("three"))
    assert await _texts(store, "t1") == ["one", "two", "one", "three"]
    assert await _texts(store, "t1", newest_first=True) == ["three", "one", "two", "one"]
    page = await store.list_messages(TENANT, "t1", limit=2, newest_first=True)
    assert page.total == 4
    assert await _texts(store, "t1", newest_first=True, start=page.next_from) == ["two", "one"]
    page = await store.list_messages(TENANT, "t1", limit=3)
    assert await _texts(store, "t1", start=page.next_from) == ["three"]
    assert (await store.get_thread(TENANT, "t1")).updated_at > thread.updated_at


async def test_a_thread_is_of_one_user_and_one_tenant(store: SqlStore) -> None:
    thread = await store.create_thread(TENANT, "t1", ALICE, None)
    assert await store.create_thread(TENANT, "t1", ALICE, {"x": 1}) == thread
    for scope in (Scope("bob"), Scope("alice", "a")):
        with pytest.raises(Conflict, match="another user"):
            await store.create_thread(TENANT, "t1", scope, None)
    other = await store.create_tenant("other")
    await store.create_thread(other.id, "t1", Scope("bob"), None)
    await store.add_messages(other.id, "t1", said("theirs"))
    assert await _texts(store, "t1") == []
    assert await store.get_thread(other.id, "t2") is None
    assert await store.add_messages(TENANT, "t2", said("x")) is None
    assert await store.list_messages(TENANT, "t2", limit=9) is None
    assert await store.delete_thread(TENANT, "t2") is None


async def test_a_user_of_the_same_name_elsewhere_is_another_user(store: SqlStore) -> None:
    other = await store.create_tenant("other")
    for tenant in (TENANT, other.id):
        await store.create_thread(tenant, "t1", ALICE, None)
        await store.add_messages(tenant, "t1", said("hers"))
    assert (await store.list_threads(TENANT, ALICE, limit=9)).total == 1
    removed = await store.delete_scope(other.id, ALICE)
    assert (removed.threads, removed.messages) == (1, 1)
    assert await _texts(store, "t1") == ["hers"]


async def test_a_repeated_request_adds_nothing(store: SqlStore) -> None:
    await store.create_thread(TENANT, "t1", ALICE, None)
    await store.create_thread(TENANT, "t2", ALICE, None)
    first = await store.add_messages(TENANT, "t1", said("a", "b"), key="k")
    assert await store.add_messages(TENANT, "t1", said("a", "b"), key="k") == first
    await store.add_messages(TENANT, "t2", said("a", "b"), key="k")
    assert await _texts(store, "t1") == await _texts(store, "t2") == ["a", "b"]
    for others in (said("a"), said("a", "c")):
        with pytest.raises(Conflict, match="Idempotency-Key"):
            await store.add_messages(TENANT, "t1", others, key="k")
    assert await store.add_messages(TENANT, "t1", []) == []


async def test_a_thread_in_an_app_is_that_apps(store: SqlStore) -> None:
    mail = Scope("alice", app_id="mail")
    await store.create_thread(TENANT, "t1", ALICE, None)
    made = await store.create_thread(TENANT, "t2", mail, None)
    assert made == await store.create_thread(TENANT, "t2", mail, None)
    assert made.scope == Scope("alice", run_id="t2", app_id="mail")
    for scope in (ALICE, Scope("alice", app_id="shop")):
        with pytest.raises(Conflict, match="another user, agent or app"):
            await store.create_thread(TENANT, "t2", scope, None)
    found = await store.list_threads(TENANT, Scope(app_id="mail"), limit=9)
    assert list(found.threads) == [made]
    assert (await store.list_threads(TENANT, ALICE, limit=9)).total == 2
    removed = await store.delete_scope(TENANT, Scope(app_id="mail"))
    assert removed.threads == 1
    assert await store.get_thread(TENANT, "t2") is None
    assert await store.get_thread(TENANT, "t1") is not None


async def test_threads_go_alone_with_a_user_or_by_their_id_as_a_run(store: SqlStore) -> None:
    for thread, scope in (("t1", ALICE), ("t2", Scope("alice", "a")), ("t3", Scope("bob", "a"))):
        await store.create_thread(TENANT, thread, scope, None)
        await store.add_messages(TENANT, thread, said("SECRET", "two"))
    page = await store.list_threads(TENANT, ALICE, limit=1)
    assert ([t.id for t in page.threads], page.total) == (["t1"], 2)
    rest = await store.list_threads(TENANT, ALICE, limit=1, after=page.next_after)
    assert ([t.id for t in rest.threads], rest.next_after) == (["t2"], None)
    agents = await store.list_threads(TENANT, Scope(agent_id="a"), limit=9)
    assert [t.id for t in agents.threads] == ["t2", "t3"]
    assert (await store.list_threads(TENANT, limit=9)).total == 3

    (first, _) = (await store.list_messages(TENANT, "t3", limit=9)).messages
    assert await store.delete_message(TENANT, "t3", first.id)
    assert not await store.delete_message(TENANT, "t3", first.id)
    assert await _texts(store, "t3") == ["two"]
    removed = await store.delete_scope(TENANT, Scope("alice", run_id="t1"))
    assert (removed.threads, removed.messages) == (1, 2)
    removed = await store.delete_scope(TENANT, ALICE)
    assert (removed.threads, removed.messages) == (1, 2)
    removed = await store.delete_thread(TENANT, "t3")
    assert (removed.threads, removed.messages) == (1, 1)
    assert (await store.list_threads(TENANT, limit=9)).total == 0


async def test_deleted_messages_are_not_in_the_file(store: SqlStore, tmp_path: Any) -> None:
    await store.create_thread(TENANT, "t1", ALICE, None)
    await store.add_messages(TENANT, "t1", said("SECRET"))
    await store.delete_thread(TENANT, "t1")
    await store.close()
    files = b"".join(path.read_bytes() for path in tmp_path.glob("memory.db*"))
    assert b"SECRET" not in files
    await store.start()


async def test_the_migration_goes_down_with_threads_there(store: SqlStore) -> None:
    await store.create_thread(TENANT, "t1", ALICE, None)
    await store.add_messages(TENANT, "t1", said("x"))
    async with store._db.write() as conn:
        await conn.run_sync(migrations.downgrade, "0008")
        await conn.run_sync(migrations.upgrade)
    assert (await store.list_threads(TENANT, limit=9)).total == 0
