"""Quotas: exact in the transaction, whoever else writes; what does not fit leaves no trace."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings
from sqlalchemy import text as sql

from inferscale_sidecar.core import Scope
from inferscale_sidecar.errors import NotFound, QuotaExceeded, TooLarge
from inferscale_sidecar.limits import Limits
from inferscale_sidecar.store import SqlStore, migrations
from inferscale_sidecar.store.block_port import BlockDraft
from inferscale_sidecar.store.database import Database
from inferscale_sidecar.store.document_port import DocumentDraft, Owner
from inferscale_sidecar.store.records import Added, Draft, FactDraft, Usage
from inferscale_sidecar.store.thread_port import MessageDraft

from .full_store import fill

OWNER = Owner("default", "alice")
ALICE, BOB, AGENT = Scope(user_id="alice"), Scope(user_id="bob"), Scope(agent_id="a")
VECTOR = np.full(4, 0.5, dtype=np.float32)


async def _add(store: SqlStore, scope: Scope, *texts: str) -> list[Added]:
    return await store.add_memories("default", scope, [Draft(text, VECTOR) for text in texts])


async def _texts(store: SqlStore, scope: Scope) -> set[str]:
    page = await store.list_memories("default", scope, limit=1_000)
    return {memory.text for memory in page.memories}


async def test_a_request_that_does_not_fit_stores_nothing_of_it(store: SqlStore) -> None:
    await store.set_limits("default", {"memories": 3})
    await _add(store, ALICE, "one", "two")
    with pytest.raises(QuotaExceeded, match=r"4 memories, .* limit memories is 3; delete"):
        await _add(store, BOB, "three", "four")
    assert await _texts(store, BOB) == set()
    await _add(store, BOB, "three")
    # What is there already needs no room.
    assert [added.event for added in await _add(store, ALICE, "one", "two")] == ["NOOP", "NOOP"]
    assert await store.usage("default") == Usage(3, 11)


async def test_what_is_deleted_makes_room(store: SqlStore) -> None:
    await store.set_limits("default", {"memories": 2, "text_bytes": 7})
    one, _ = await _add(store, ALICE, "one", "two")
    with pytest.raises(QuotaExceeded):
        await _add(store, ALICE, "x")
    await store.delete_memory("default", one.memory.id)
    await _add(store, ALICE, "x")
    await store.delete_scope("default", ALICE)
    assert await store.usage("default") == Usage(0, 0)


async def test_users_have_a_limit_of_their_own(store: SqlStore) -> None:
    await store.set_limits("default", {"memories_per_user": 1})
    await _add(store, ALICE, "one")
    await _add(store, BOB, "one")
    await _add(store, AGENT, "one", "two")
    with pytest.raises(QuotaExceeded, match=r"2 memories of this user, .* memories_per_user is 1"):
        await _add(store, Scope(user_id="alice", agent_id="a"), "two")


async def test_text_is_counted_in_bytes_also_when_it_changes(store: SqlStore) -> None:
    await store.set_limits("default", {"text_bytes": 6})
    (added,) = await _add(store, ALICE, "ééé")

    async def change(text: str) -> None:
        await store.update_memory(
            "default", added.memory.id, text=text, vector=VECTOR, metadata=None, keep_metadata=True
        )

    with pytest.raises(QuotaExceeded, match="7 bytes of text"):
        await change("éééx")
    await change("é")
    assert await store.usage("default") == Usage(1, 2)
    await store.set_limits("default", {"text_bytes": 1})
    await change("x")  # over or not: what shrinks may always be written


async def test_one_text_has_a_limit(store: SqlStore) -> None:
    await store.set_limits("default", {"text_bytes_per_memory": 4})
    with pytest.raises(TooLarge, match=r"6 bytes, .* text_bytes_per_memory is 4; split"):
        await _add(store, ALICE, "ok", "ééé")
    assert await _texts(store, ALICE) == set()


async def test_other_tenants_are_not_limited_by_it(store: SqlStore) -> None:
    other = await store.create_tenant("other")
    await store.set_limits("default", {"memories": 1})
    drafts = [Draft(text, VECTOR) for text in ("one", "two")]
    await store.add_memories(other.id, ALICE, drafts)
    assert await store.limits(other.id) == Limits()
    with pytest.raises(NotFound):
        await store.set_limits("nobody", {"memories": 1})
    with pytest.raises(NotFound):
        await store.usage("nobody")


async def test_what_is_set_for_a_tenant_goes_before_the_servers_default(
    store: SqlStore, database_url: str
) -> None:
    server = SqlStore(database_url, limits=Limits(memories=1, streams=2))
    await server.set_limits("default", {"memories": 0})
    assert await server.limits("default") == Limits(streams=2)
    assert await server.own_limits("default") == {"memories": 0}
    await _add(server, ALICE, "one", "two")
    await server.set_limits("default", {"memories": None})
    with pytest.raises(QuotaExceeded):
        await _add(server, ALICE, "three")
    await server.close()


async def test_facts_that_do_not_fit_leave_the_messages_as_they_were(store: SqlStore) -> None:
    await store.set_limits("default", {"memories": 2})
    job = await store.open_extraction("default", ALICE, [Draft("a message", VECTOR)])
    facts = [FactDraft(Draft(text, VECTOR), (0,)) for text in ("one", "two")]
    with pytest.raises(QuotaExceeded):
        await store.finish_extraction("default", job.id, facts)
    assert await _texts(store, ALICE) == {"a message"}
    await store.finish_extraction("default", job.id, facts[:1])
    assert await _texts(store, ALICE) == {"one"}
    assert await store.usage("default") == Usage(2, 12)
    with pytest.raises(QuotaExceeded):
        await store.open_extraction("default", ALICE, [Draft("another", VECTOR)])


WRITER = """
import asyncio, sys
import numpy as np
from inferscale_sidecar.core import Scope
from inferscale_sidecar.errors import QuotaExceeded
from inferscale_sidecar.store import SqlStore
from inferscale_sidecar.store.records import Draft

async def main(url, name):
    store = SqlStore(url)
    await store.start()
    refused = 0
    for number in range(8):
        draft = Draft(f"{name} {number}", np.full(4, 0.5, dtype=np.float32))
        try:
            await store.add_memories("default", Scope(user_id="alice"), [draft])
        except QuotaExceeded:
            refused += 1
    print(refused)
    await store.close()

asyncio.run(main(*sys.argv[1:]))
"""


async def test_concurrent_processes_fill_a_quota_to_the_brim_and_never_over(
    store: SqlStore, database_url: str
) -> None:
    await store.set_limits("default", {"memories": 20})
    commands = [[sys.executable, "-c", WRITER, database_url, f"w{n}"] for n in range(4)]
    writers = [subprocess.Popen(c, stdout=subprocess.PIPE, text=True) for c in commands]
    said = [await asyncio.to_thread(writer.communicate, timeout=120) for writer in writers]
    assert sum(int(out) for out, _ in said) == 4 * 8 - 20
    assert len(await _texts(store, ALICE)) == 20


texts = st.text(st.sampled_from("aé漢😀"), min_size=1, max_size=4)


@given(steps=st.lists(st.tuples(st.sampled_from("audsbBtmMpD"), texts, st.integers(0, 9))))
@settings(max_examples=12)
def test_usage_is_what_the_rows_amount_to(
    tmp_path_factory: pytest.TempPathFactory, steps: Sequence[tuple[str, str, int]]
) -> None:
    path = tmp_path_factory.mktemp("usage") / "memory.db"

    async def run() -> None:
        store = SqlStore(f"sqlite+aiosqlite:///{path}")
        await store.start()
        for what, text, at in steps:
            await _step(store, what, text, at)
            await _keep(store, what, text, at)
        memories = (await store.list_memories("default", ALICE, limit=1_000)).memories
        blocks = (await store.list_blocks("default", limit=1_000)).blocks
        threads = (await store.list_threads("default", limit=1_000)).threads
        pages = [await store.list_messages("default", t.id, limit=1_000) for t in threads]
        messages = [message for page in pages if page for message in page.messages]
        documents = [d async for d in store.scan_documents(OWNER, ())]
        said = [*(m.text for m in memories), *(b.value for b in blocks)]
        said += [*(m.content for m in messages), *(json.dumps(d.value) for d in documents)]
        assert await store.usage("default") == Usage(
            len(memories),
            sum(len(text.encode()) for text in said),
            len(blocks),
            len(threads),
            len(messages),
            len(documents),
        )
        assert await store.check_integrity() == []
        await store.close()

    asyncio.run(run())


async def _step(store: SqlStore, what: str, text: str, at: int) -> None:
    page = await store.list_memories("default", ALICE, limit=1_000)
    chosen = page.memories[at % len(page.memories)].id if page.memories else "nothing"
    if what == "a":
        await _add(store, ALICE, text)
    elif what == "u" and text not in {memory.text for memory in page.memories}:
        options: Any = {"metadata": None, "keep_metadata": True}
        await store.update_memory("default", chosen, text=text, vector=VECTOR, **options)
    elif what == "d":
        await store.delete_memory("default", chosen)
    elif what == "s" and at == 0:
        await store.delete_scope("default", ALICE)


async def _keep(store: SqlStore, what: str, text: str, at: int) -> None:
    """What is kept beside memories: b, B blocks; t, m, M threads and messages; p, D documents."""
    blocks = (await store.list_blocks("default", ALICE, limit=1_000)).blocks
    if what == "b" and blocks:
        await store.edit_block("default", blocks[0].id, lambda old: replace(old, value=text))
    elif what == "b":
        await store.create_block("default", BlockDraft("human", text, 9), ALICE)
    elif what == "B" and blocks:
        await store.delete_block("default", blocks[0].id)
    elif what == "t" and at == 0:
        await store.delete_thread("default", "t")
    elif what in ("t", "m"):
        await store.create_thread("default", "t", ALICE, None)
        await store.add_messages("default", "t", [MessageDraft("user", text)], key=text)
    elif what == "M":
        page = await store.list_messages("default", "t", limit=1)
        if page and page.messages:
            await store.delete_message("default", "t", page.messages[0].id)
    elif what in ("p", "D"):
        draft = DocumentDraft({"text": text}) if what == "p" else None
        await store.write_documents(OWNER, {(("notes",), str(at % 3)): draft})
        if what == "D" and at == 0:
            await store.delete_documents(OWNER, ())


async def test_the_migration_counts_what_is_there_and_goes_down_again(
    store: SqlStore, database_url: str
) -> None:
    await fill(store)
    before = await store.usage("default")
    assert 0 not in asdict(before).values()
    await store.set_limits("default", {"memories": 9, "documents": 9})
    database = Database(database_url)
    async with database.write() as conn:
        await conn.run_sync(migrations.downgrade, "0011")
        kept = (await conn.execute(sql("SELECT num_memories, text_bytes FROM tenants"))).one()
        size = (await conn.execute(sql("SELECT text FROM memories"))).scalars()
        names = (await conn.execute(sql("SELECT name FROM tenant_limits"))).scalars()
        assert kept == (before.memories, sum(len(each.encode()) for each in size))
        assert list(names) == ["memories"]
        await conn.run_sync(migrations.upgrade)
    assert await store.usage("default") == before
    async with database.write() as conn:
        await conn.run_sync(migrations.downgrade, "0003")
    async with database.write() as conn:
        await conn.run_sync(migrations.upgrade)
    await database.close()
    assert await store.limits("default") == Limits()
    assert await store.check_integrity() == []
