"""Migrations on databases that hold something: what can be kept is kept, up and down."""

from datetime import UTC, datetime
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, MetaData

from inferscale_sidecar.core import Scope
from inferscale_sidecar.store import SqlStore, migrations
from inferscale_sidecar.store.database import Database
from inferscale_sidecar.store.rows import scope_digest, text_digest

from .full_store import ALICE, dump, fill, fill_app
from .test_migrations import differences

VERSIONS = Path(migrations.__file__).parent / "versions"
REVISIONS = [f"{number:04}" for number in range(1, 1 + len(list(VERSIONS.glob("v*.py"))))]
# From this revision on the schema can say it; the way down to an older one must drop such rows.
SAID_SINCE = {"source": "0002", "superseded": "0003"}
BANKS_SINCE = "0008"
PAST_SINCE = "0010"


async def test_every_table_is_filled(store: SqlStore) -> None:
    """So that the next test says something about each."""
    await fill(store)
    async with store._db.read() as conn:
        rows = await conn.run_sync(dump)
    assert not [name for name, its in rows.items() if not its]
    await store.close()


@pytest.mark.parametrize("revision", REVISIONS)
async def test_down_and_up_again_loses_only_what_the_older_release_cannot_hold(
    store: SqlStore, revision: str
) -> None:
    ids = await fill(store)
    async with store._db.read() as conn:
        before = await conn.run_sync(dump)
    async with store._db.write() as conn:
        await conn.run_sync(migrations.downgrade, revision)
    async with store._db.read() as conn:
        older = await conn.run_sync(dump)
    async with store._db.write() as conn:
        await conn.run_sync(migrations.upgrade)
    async with store._db.read() as conn:
        after = await conn.run_sync(dump)
        assert await conn.run_sync(differences) == []
    lost = {ids[status] for status, since in SAID_SINCE.items() if revision < since}
    for name, rows in older.items():
        columns = set(rows[0]) if rows else set()
        if name in ("kv_items", "kv_item_contexts", "builds", "purges", "block_prefixes"):
            continue  # of banks: in the next test
        if name == "tenants":
            columns -= {"num_memories", "text_bytes"}
        expected = _lines(_without(before[name], lost, revision), columns)
        assert _lines(rows, columns) == _lines(after[name], columns) == expected, name
    assert await store.check_integrity() == []


@pytest.mark.parametrize("revision", REVISIONS)
async def test_no_key_that_a_bank_may_hold_is_forgotten(store: SqlStore, revision: str) -> None:
    await fill(store)
    async with store._db.write() as conn:
        await conn.run_sync(migrations.downgrade, revision)
        await conn.run_sync(migrations.upgrade)
    async with store._db.read() as conn:
        rows = await conn.run_sync(dump)
    known = {row["key"] for name in ("kv_items", "purges", "block_prefixes") for row in rows[name]}
    known = {key for key in known if key.startswith("k")}  # the others are ids of deleted texts
    assert known == {"k1", "k2", "k3", "k4", "k8"}
    if revision < BANKS_SINCE:
        assert {row["fingerprint"] for row in rows["purges"]} == {"model"}


async def test_apps_go_down_with_all_that_is_theirs_and_nothing_else(store: SqlStore) -> None:
    ids = await fill(store)
    block = (await store.list_blocks("default", ALICE, limit=1)).blocks[0]
    async with store._db.read() as conn:
        before = await conn.run_sync(dump)
    await fill_app(store, ids["live"])
    await store.attach_block("default", block.id, Scope(app_id="mail"))
    async with store._db.write() as conn:
        await conn.run_sync(migrations.downgrade, "0013")
        older = await conn.run_sync(dump)
        await conn.run_sync(migrations.upgrade)
        assert await conn.run_sync(differences) == []
    assert {"k5", "k6", "k7"} <= {row["key"] for row in older["purges"]}
    for name, rows in older.items():
        if name not in ("purges", "meta"):
            columns = set(rows[0]) - ({"change_seq"} if name == "tenants" else set())
            assert _lines(rows, columns) == _lines(before[name], columns), name
    assert await store.check_integrity() == []
    await store.close()


def test_digests_of_before_there_were_apps_are_the_same() -> None:
    """What was written then is known again; no two scopes have one digest."""
    assert scope_digest(Scope("alice", None, "r")) == text_digest('["alice", null, "r"]')
    scopes = [Scope(*some) for some in product((None, "x"), repeat=4)]
    assert len({scope_digest(scope) for scope in scopes}) == 16


def _without(rows: list[dict[str, Any]], ids: set[str], revision: str) -> list[dict[str, Any]]:
    """Rows that neither are one of these memories nor belong to one."""
    if revision < PAST_SINCE:  # handles of a past moment, and when a message gave way to its facts
        rows = [row for row in rows if "mh_2" not in (row.get("id"), row.get("handle_id"))]
        rows = [row for row in rows if row.get("event") != "EXTRACT"]
    names = ("id", "memory_id", "source_id")
    return [row for row in rows if not ids & {str(row.get(name)) for name in names}]


def _lines(rows: list[dict[str, Any]], columns: set[str]) -> list[str]:
    return sorted(str({name: row[name] for name in sorted(columns)}) for row in rows)


async def test_what_the_first_release_wrote_is_found_by_this_one(database_url: str) -> None:
    database = Database(database_url)
    async with database.write() as conn:
        await conn.run_sync(migrations.upgrade, "0001")
        await conn.run_sync(_write_as_first_release)
    for revision in REVISIONS[1:]:
        async with database.write() as conn:
            await conn.run_sync(migrations.upgrade, revision)
    await database.close()
    store = SqlStore(database_url)
    await store.start()
    (memory,) = (await store.list_memories("default", ALICE, limit=9)).memories
    assert (memory.text, memory.status, memory.kind) == ("likes tea", "live", "memory")
    assert memory.metadata == {"a": "ü"}
    assert (await store.usage("default")).memories == 1
    assert len((await store.changes("default", ALICE, since=None)).rows) == 1
    assert not await store.bind_bank("model@bank")
    assert await store.pending_builds("model@bank", limit=9) == [], "its KV is known still"
    assert await store.check_integrity() == []
    await store.close()


def _write_as_first_release(connection: Connection) -> None:
    there = MetaData()
    there.reflect(connection)
    now = datetime(2026, 1, 1, tzinfo=UTC)
    memory = {
        "id": "m1",
        "tenant_id": "default",
        "user_id": "alice",
        "owner": "user:alice",
        "scope_key": scope_digest(ALICE),
        "text": "likes tea",
        "text_hash": text_digest("likes tea"),
        "version": 1,
        "metadata": {"a": "ü"},
        "seq": 1,
        "created_at": now,
        "updated_at": now,
    }
    same = {name: memory[name] for name in ("tenant_id", "version", "text", "seq", "created_at")}
    kv = {"fingerprint": "model", "memory_id": "m1", "version": 1, "tenant_id": "default"}
    tenant = {"id": "default", "name": "default", "salt": b"s" * 32, "change_seq": 1}
    for name, row in (
        ("tenants", tenant | {"created_at": now}),
        ("memories", memory),
        ("memory_versions", same | {"memory_id": "m1", "event": "ADD"}),
        ("embeddings", {"memory_id": "m1", "vector": b"\x00\x00\x80?" * 4}),
        ("kv_items", kv | {"key": "k", "num_tokens": 3}),
    ):
        connection.execute(there.tables[name].insert().values(row))
