"""Documents in SQL: owners apart, time to live, upserts, and the migration there and back."""

import asyncio
from datetime import timedelta
from typing import Any

import numpy as np
import pytest
from sqlalchemy import func, select, text

from inferscale_sidecar.errors import NotFound
from inferscale_sidecar.store import SqlStore, migrations
from inferscale_sidecar.store.database import Database
from inferscale_sidecar.store.document_port import DocumentDraft, Owner
from inferscale_sidecar.store.document_schema import document_vectors, documents

ALICE, BOB, SHARED = Owner("default", "alice"), Owner("default", "bob"), Owner("default")
PATH = (("a",), "k")


def seconds(count: float) -> timedelta:
    return timedelta(seconds=count)


async def rows(store: SqlStore, table: Any) -> int:
    async with store._db.read() as conn:
        return int(await conn.scalar(select(func.count()).select_from(table)) or 0)


async def scan(store: SqlStore, owner: Owner, *prefix: str) -> list[str]:
    return [document.key async for document in store.scan_documents(owner, prefix)]


async def test_each_owner_has_documents_of_its_own(store: SqlStore) -> None:
    other = Owner((await store.create_tenant("other")).id, "alice")
    owners = (ALICE, BOB, SHARED, other)
    for n, owner in enumerate(owners):
        await store.write_documents(owner, {PATH: DocumentDraft({"n": n})})
    for n, owner in enumerate(owners):
        assert (await store.get_documents(owner, [PATH]))[PATH].value == {"n": n}
        assert await scan(store, owner) == ["k"]
    await store.write_documents(ALICE, {PATH: None})
    assert await store.delete_documents(BOB, ()) == 1
    assert await scan(store, ALICE) == await scan(store, BOB) == []
    assert await scan(store, SHARED) == await scan(store, other) == ["k"]


async def test_a_prefix_is_whole_labels_and_minds_letter_case(store: SqlStore) -> None:
    for label in ("a", "ab", "A", "a%", "_"):
        await store.write_documents(ALICE, {((label, "x"), label): DocumentDraft({})})
    for label in ("a", "ab", "A", "a%", "_"):
        assert await scan(store, ALICE, label) == [label]
    assert await scan(store, ALICE, "a", "x") == ["a"]
    assert await scan(store, ALICE, "x") == []


async def test_many_documents_come_once_each_the_last_written_first(store: SqlStore) -> None:
    await store.write_documents(
        ALICE, {(("a",), f"k{n}"): DocumentDraft({"n": n}) for n in range(1_203)}
    )
    await store.write_documents(ALICE, {(("a",), "k7"): DocumentDraft({"n": 7})})
    found = await scan(store, ALICE)
    assert found[:2] == ["k7", "k1202"]
    assert len(found) == len(set(found)) == 1_203


async def test_two_writers_of_one_new_key(store: SqlStore, database_url: str) -> None:
    second = SqlStore(database_url)
    drafts = [DocumentDraft({"n": n}, [np.ones(3, np.float32)]) for n in range(8)]
    await asyncio.gather(
        *((store, second)[n % 2].write_documents(ALICE, {PATH: d}) for n, d in enumerate(drafts))
    )
    await second.close()
    assert await rows(store, documents) == await rows(store, document_vectors) == 1


async def test_expired_rows_leave_the_disk_with_their_vectors(store: SqlStore, clock: Any) -> None:
    draft = DocumentDraft({}, [np.ones(3, np.float32)], 60.0, clock() + seconds(60))
    await store.write_documents(ALICE, {PATH: draft})
    assert await store.sweep_documents() == 0
    clock.advance(seconds=61)
    assert await store.get_documents(ALICE, [PATH]) == {}
    assert await rows(store, documents) == 1
    assert await store.sweep_documents() == 1
    assert await rows(store, documents) == await rows(store, document_vectors) == 0


async def test_an_extension_never_touches_a_newer_write(store: SqlStore, clock: Any) -> None:
    short = DocumentDraft({}, (), 60.0, clock() + seconds(60))
    await store.write_documents(ALICE, {PATH: short})
    read = (await store.get_documents(ALICE, [PATH]))[PATH]
    await store.write_documents(ALICE, {PATH: DocumentDraft({}, (), 5.0, clock() + seconds(5))})
    await store.extend_documents([read], clock())
    clock.advance(seconds=6)
    assert await store.get_documents(ALICE, [PATH]) == {}


async def test_an_unknown_tenant_is_refused(store: SqlStore) -> None:
    with pytest.raises(NotFound, match="no tenant"):
        await store.write_documents(Owner("nobody"), {PATH: DocumentDraft({})})


async def test_down_and_up_with_documents_inside(database_url: str) -> None:
    store = SqlStore(database_url)
    await store.start()
    await store.write_documents(ALICE, {PATH: DocumentDraft({"n": 1}, [np.ones(3, np.float32)])})
    await store.close()
    database = Database(database_url)
    async with database.write() as conn:
        revision = await conn.scalar(text("SELECT version_num FROM alembic_version"))
        await conn.run_sync(migrations.downgrade, "0004")
        assert revision >= "0005"
    async with database.write() as conn:
        await conn.run_sync(migrations.upgrade)
    await database.close()
    store = SqlStore(database_url)
    assert await scan(store, ALICE) == []
    await store.write_documents(ALICE, {PATH: DocumentDraft({"n": 2})})
    assert await scan(store, ALICE) == ["k"]
    await store.close()
