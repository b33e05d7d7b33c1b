"""Threads and documents go out and come in: word for word, in order, to their owners alone."""

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.sidecar.databases import Backend

from inferscale.protocol import document as wire
from inferscale_sidecar.core import Scope
from inferscale_sidecar.errors import InvalidInput
from inferscale_sidecar.metrics import Metrics
from inferscale_sidecar.service.documents import DocumentService
from inferscale_sidecar.store.document_port import DocumentDraft, Owner

from .transfer_world import Place, opened, put, say

pytestmark = pytest.mark.parametrize("backend", ["sqlite", "postgres"], indirect=True)


@pytest.fixture
async def here(backend: Backend) -> AsyncIterator[Place]:
    async with opened(backend) as place:
        yield place


@pytest.fixture
async def there(backend: Backend) -> AsyncIterator[Place]:
    async with opened(backend) as place:
        yield place


async def said(place: Place, thread_id: str) -> list[str]:
    page = await place.store.list_messages(place.tenant.id, thread_id, limit=100)
    return [message.content for message in page.messages] if page else []


async def kept(place: Place, user_id: str | None) -> dict[str, dict[str, Any]]:
    scan = place.store.scan_documents(Owner(place.tenant.id, user_id), ())
    return {document.key: document.value async for document in scan}


async def test_a_user_goes_out_with_threads_and_documents_and_nobody_else(
    here: Place, there: Place
) -> None:
    for user in ("alice", "bob"):
        await say(here, user, "t", f"I am {user}")
        await say(here, user, "t", "bye")
        await put(here, user, "note", {"text": f"of {user}"})
    await put(here, None, "shared", {"text": "of all"})
    content = await here.export(Scope("alice"))
    assert b"bob" not in content
    assert b"of all" not in content
    report = await there.take(content)
    assert (report.threads, report.messages, report.documents) == (1, 2, 1)
    assert await said(there, "t-alice") == ["I am alice", "bye"]
    assert await kept(there, "alice") == {"note": {"text": "of alice"}}
    assert await kept(there, "bob") == await kept(there, None) == {}
    report = await there.take(await here.export())
    assert (report.threads, report.messages, report.documents) == (1, 2, 2)
    assert report.unchanged == 4
    assert await kept(there, None) == {"shared": {"text": "of all"}}


async def test_a_run_is_a_thread_and_has_no_documents(here: Place, there: Place) -> None:
    await say(here, "alice", "t1", "one")
    await say(here, "alice", "t2", "two")
    await put(here, "alice", "note", {"text": "x"})
    report = await there.take(await here.export(Scope(run_id="t2-alice")))
    assert (report.threads, report.messages, report.documents) == (1, 1, 0)
    assert await said(there, "t2-alice") == ["two"]
    report = await there.take(await here.export(Scope("alice", run_id="t1-alice")))
    assert (report.threads, report.messages, report.documents) == (1, 1, 0)


async def test_messages_that_came_later_are_added_behind(here: Place, there: Place) -> None:
    await say(here, "alice", "t", "one")
    await there.take(await here.export())
    before = await there.store.get_thread(there.tenant.id, "t-alice")
    await say(here, "alice", "t", "two")
    report = await there.take(await here.export())
    assert (report.threads, report.messages, report.unchanged) == (0, 1, 2)
    assert await said(there, "t-alice") == ["one", "two"]
    thread = await there.store.get_thread(there.tenant.id, "t-alice")
    assert thread == await here.store.get_thread(here.tenant.id, "t-alice")
    assert before is not None
    assert thread is not None
    assert before.updated_at < thread.updated_at


async def test_nothing_gets_into_a_thread_of_another_user(here: Place, there: Place) -> None:
    await say(here, "alice", "t", "a secret")
    await there.store.create_thread(there.tenant.id, "t-alice", Scope("mallory"), None)
    report = await there.take(await here.export())
    assert (report.threads, report.messages, report.differing) == (0, 0, 2)
    assert await said(there, "t-alice") == []


async def test_the_same_file_goes_to_two_tenants_of_a_database(here: Place) -> None:
    await say(here, "alice", "t", "hello")
    await put(here, "alice", "note", {"text": "x"})
    content = await here.export()
    for options in ({}, {"keep_ids": True}):
        name = f"other{len(options)}"
        other = here.at(await here.store.create_tenant(name))
        report = await other.take(content, **options)
        assert (report.threads, report.messages, report.documents) == (1, 1, 1)
        report = await other.take(content, **options)
        assert (report.unchanged, report.messages, report.documents) == (3, 0, 0)
        assert await said(other, "t-alice") == ["hello"]
        assert await kept(other, "alice") == {"note": {"text": "x"}}
    assert await said(here, "t-alice") == ["hello"]
    assert await here.export() == content


async def test_a_document_that_is_here_stays_as_it_is(here: Place, there: Place) -> None:
    await put(here, "alice", "note", {"text": "theirs"})
    await put(there, "alice", "note", {"text": "ours"})
    report = await there.take(await here.export())
    assert (report.documents, report.differing) == (0, 1)
    assert await kept(there, "alice") == {"note": {"text": "ours"}}


async def test_documents_are_found_by_meaning_where_they_came_to(here: Place, there: Place) -> None:
    await put(here, "alice", "tea", {"text": "green tea"})
    await put(here, "alice", "bike", {"text": "blue bicycle"})
    for vectors, number in ((True, 0), (False, 2)):
        other = there.at(await there.store.create_tenant(f"other{number}"))
        before = there.embedder.num_embedded
        await other.take(await here.export(vectors=vectors))
        assert there.embedder.num_embedded - before == number
        documents = DocumentService(there.store, there.embedder, Metrics("test"))
        found: Any
        search = wire.SearchFields(query="green tea", limit=1)
        (found,) = await documents.batch(other.tenant, "alice", [search])
        assert [(each.document.key, round(each.score, 3)) for each in found] == [("tea", 1.0)]


async def test_a_document_expires_when_it_would_have(here: Place, there: Place) -> None:
    now = datetime.now(UTC)
    owner, path = Owner(here.tenant.id, "alice"), (("a",), "k")
    for key, end in (("soon", timedelta(seconds=0.3)), ("later", timedelta(days=1))):
        draft = DocumentDraft({"x": 1}, (), end.total_seconds(), now + end)
        await here.store.write_documents(owner, {(path[0], key): draft})
    content = await here.export()
    await asyncio.sleep(0.4)
    report = await there.take(content)
    assert (report.documents, report.deleted) == (1, 1)
    assert await kept(there, "alice") == {"later": {"x": 1}}
    assert b"soon" not in await here.export()
    (line,) = [
        json.loads(line) for line in (await there.export()).splitlines() if b'"later"' in line
    ]
    assert datetime.fromisoformat(line["expires_at"]) == now + timedelta(days=1)


@pytest.mark.parametrize(
    ("kind", "fields", "reason"),
    [
        ("thread", {"id": "a/b"}, "id: thread id 'a/b' must not contain '/'"),
        ("thread", {"user_id": "*"}, "user_id: id '*' must be non-empty"),
        ("message", {"content": " "}, "content: text is empty"),
        ("message", {"role": "a\nb"}, "role 'a\\nb' has characters that cannot be printed"),
        ("document", {"namespace": ["a.b"]}, "namespace.0: namespace label 'a.b'"),
        ("document", {"namespace": []}, "namespace: Value should have at least 1 item"),
        ("document", {"value": {"x": "y" * 2**20}}, "value has 1048585 bytes"),
        ("document", {"ttl_s": 5}, "ttl_s and expires_at go together"),
        ("document", {"index": ["$"] * 65}, "index: List should have at most 64"),
    ],
)
async def test_what_cannot_be_stored_is_named(
    here: Place, there: Place, kind: str, fields: dict[str, Any], reason: str
) -> None:
    await say(here, "alice", "t", "hello")
    await put(here, "alice", "note", {"text": "x"})
    lines = [json.loads(line) for line in (await here.export()).splitlines()]
    bad = [line | fields if line["type"] == kind else line for line in lines]
    content = b"".join(json.dumps(line).encode() + b"\n" for line in bad)
    with pytest.raises(InvalidInput, match="nothing was imported") as caught:
        await there.take(content)
    assert reason in caught.value.message
    report = await there.take(content, skip_invalid=True)
    assert report.invalid == 1
    assert await said(there, "t-alice") == ([] if kind == "message" else ["hello"])
