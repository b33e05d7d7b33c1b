"""Quotas of what a tenant keeps beside memories: blocks, threads, their messages, documents."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from inferscale_sidecar.core import Scope
from inferscale_sidecar.errors import QuotaExceeded
from inferscale_sidecar.store import SqlStore
from inferscale_sidecar.store.block_port import BlockDraft
from inferscale_sidecar.store.document_port import DocumentDraft, Owner
from inferscale_sidecar.store.records import Usage
from inferscale_sidecar.store.thread_port import MessageDraft

ALICE = Scope("alice")
OWNER = Owner("default", "alice")
Write = Callable[[SqlStore, str], Awaitable[Any]]


async def pin(store: SqlStore, name: str) -> Any:
    return await store.create_block("default", BlockDraft(name, "ééé", 9), None)


async def begin(store: SqlStore, name: str) -> Any:
    return await store.create_thread("default", name, ALICE, None)


async def say(store: SqlStore, name: str) -> Any:
    await store.create_thread("default", "t", ALICE, None)
    return await store.add_messages("default", "t", [MessageDraft("user", "ééé")], key=name)


async def put(store: SqlStore, name: str) -> Any:
    return await store.write_documents(OWNER, {(("a",), name): DocumentDraft({"x": 1})})


KINDS: dict[str, Write] = {"blocks": pin, "threads": begin, "messages": say, "documents": put}
kinds = pytest.mark.parametrize(("kind", "write"), KINDS.items())


async def used(store: SqlStore, kind: str) -> int:
    return int(getattr(await store.usage("default"), kind))


@kinds
async def test_what_does_not_fit_is_refused_and_leaves_no_trace(
    store: SqlStore, kind: str, write: Write
) -> None:
    await store.set_limits("default", {kind: 2})
    for name in ("a", "b"):
        await write(store, name)
    before = await store.usage("default")
    with pytest.raises(QuotaExceeded, match=rf"would make 3 {kind}.* limit {kind} is 2; delete"):
        await write(store, "c")
    assert await store.usage("default") == before
    assert await store.check_integrity() == []
    other = await store.create_tenant("other")
    assert await store.usage(other.id) == Usage(0, 0)
    if kind in ("threads", "messages", "documents"):  # a block is a new one each time
        await write(store, "a")  # what is there already needs no room
    await store.set_limits("default", {kind: None})
    await write(store, "c")
    assert await used(store, kind) == 3


@kinds
async def test_concurrent_writers_fill_it_to_the_brim_and_never_over(
    store: SqlStore, database_url: str, kind: str, write: Write
) -> None:
    await store.set_limits("default", {kind: 5})
    if kind == "messages":
        await begin(store, "t")
    others = [SqlStore(database_url) for _ in range(3)]
    stores = [store, *others]
    writes = [write(stores[n % 4], f"n{n}") for n in range(12)]
    results = await asyncio.gather(*writes, return_exceptions=True)
    refused = [result for result in results if isinstance(result, BaseException)]
    assert len(refused) == 12 - 5
    assert all(isinstance(error, QuotaExceeded) for error in refused)
    assert await used(store, kind) == 5
    assert await store.check_integrity() == []
    for other in others:
        await other.close()


async def test_a_batch_that_does_not_fit_is_refused_as_a_whole(store: SqlStore) -> None:
    await store.set_limits("default", {"documents": 2, "messages": 2})
    drafts: Any = {(("a",), name): DocumentDraft({}) for name in "abc"}
    with pytest.raises(QuotaExceeded, match="3 documents"):
        await store.write_documents(OWNER, drafts)
    await begin(store, "t")
    with pytest.raises(QuotaExceeded, match="3 messages of threads"):
        await store.add_messages("default", "t", [MessageDraft("user", "x")] * 3)
    assert await store.usage("default") == Usage(0, 0, threads=1)
    await store.write_documents(OWNER, dict(list(drafts.items())[:2]))
    gone: Any = {(("a",), "a"): None, (("a",), "c"): DocumentDraft({})}
    await store.write_documents(OWNER, gone)  # what goes in the same batch makes room
    assert await used(store, "documents") == 2


async def test_text_of_every_kind_counts(store: SqlStore) -> None:
    await pin(store, "human")
    await say(store, "one")
    await put(store, "x")
    assert (await store.usage("default")).text_bytes == 6 + 6 + len('{"x": 1}')
    await store.set_limits("default", {"text_bytes": 20})
    for write in (pin, say, put):
        with pytest.raises(QuotaExceeded, match="bytes of text"):
            await write(store, "another")
    block = (await store.list_blocks("default", limit=1)).blocks[0]
    with pytest.raises(QuotaExceeded, match="22 bytes of text"):
        await store.edit_block("default", block.id, lambda old: replace(old, value="ééééé"[:4]))
    kept = await store.get_block("default", block.id)
    assert kept is not None
    assert (kept.value, kept.version) == ("ééé", 1)
    await store.edit_block("default", block.id, lambda old: replace(old, value="é"))
    await store.write_documents(OWNER, {(("a",), "x"): DocumentDraft({"x": 1234})})
    assert (await store.usage("default")).text_bytes == 2 + 6 + len('{"x": 1234}')


async def test_what_goes_makes_room_whichever_way_it_goes(store: SqlStore, clock: Any) -> None:
    block = await pin(store, "human")
    await store.attach_block("default", block.id, ALICE)
    await say(store, "one")
    second = (await say(store, "two"))[0]
    await store.delete_message("default", "t", second.id)
    expiring = DocumentDraft({"x": 1}, (), 60.0, clock() + timedelta(seconds=60))
    await store.write_documents(OWNER, {(("a",), "x"): expiring})
    assert await used(store, "messages") == 1
    await store.delete_scope("default", ALICE)
    clock.advance(seconds=61)
    await store.sweep_documents()
    assert await store.usage("default") == Usage(0, 0)
    await store.set_limits("default", {"documents": 1})
    expiring = DocumentDraft({"x": 1}, (), 60.0, clock() + timedelta(seconds=60))
    await store.write_documents(OWNER, {(("a",), "x"): expiring})
    clock.advance(seconds=61)
    await put(store, "y")  # what has expired takes no room, swept or not
    assert await store.delete_documents(OWNER, ()) == 1
    assert await store.usage("default") == Usage(0, 0)
