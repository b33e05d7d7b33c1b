"""What goes out comes in again: ids, histories, times and links; and what meets what is here."""

import asyncio
import json
import uuid
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from tests.sidecar.databases import Backend

from inferscale_sidecar.core import Scope
from inferscale_sidecar.errors import InvalidInput, QuotaExceeded

from .transfer_world import SCOPES, Place, Step, extract, opened, pin, play, say, steps

ALICE = Scope("alice")
pytestmark = pytest.mark.parametrize("backend", ["sqlite", "postgres"], indirect=True)


@pytest.fixture
async def here(backend: Backend) -> AsyncIterator[Place]:
    async with opened(backend) as place:
        yield place


@pytest.fixture
async def there(backend: Backend) -> AsyncIterator[Place]:
    async with opened(backend) as place:
        yield place


@settings(
    max_examples=15,
    deadline=None,
    derandomize=True,
    phases=[Phase.explicit, Phase.generate],  # each example makes three databases
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(script=steps)
def test_what_goes_out_comes_in_and_goes_out_the_same(backend: Backend, script: list[Step]) -> None:
    async def check() -> None:
        async with opened(backend) as one:
            await play(one, script)
            for vectors in (False, True):
                async with opened(backend) as two:
                    content = await one.export(vectors=vectors)
                    report = await two.take(content)
                    assert report.memories == content.count(b'{"type":"memory"')
                    assert await two.export(vectors=vectors) == content
                    again = await two.take(content)
                    assert again.memories == again.links == again.blocks == again.differing == 0
                    assert again.threads == again.messages == again.documents == 0
                    assert again.unchanged == report.memories + report.blocks + (
                        report.threads + report.messages + report.documents
                    )
                    assert await two.export(vectors=vectors) == content

    asyncio.run(check())


async def test_a_scope_is_exported_alone(here: Place, there: Place) -> None:
    await here.memory.add(here.tenant, ALICE, "tea", infer=False)
    await here.memory.add(here.tenant, Scope("alice", "guide"), "maps", infer=False)
    await here.memory.add(here.tenant, Scope("bob"), "coffee", infer=False)
    assert (await there.take(await here.export(ALICE))).memories == 2
    assert {memory.text for memory in await there.all(*SCOPES)} == {"tea", "maps"}


async def test_an_app_is_exported_alone_with_all_that_is_its(here: Place, there: Place) -> None:
    mail = Scope("alice", app_id="mail")
    for scope in (ALICE, mail):
        await here.memory.add(here.tenant, scope, "tea", infer=False)
        await pin(here, scope, f"about {scope.app_id}".replace(" ", "-"), "kind")
        await say(here, "alice", "t", "hello", app_id=scope.app_id)
    report = await there.take(await here.export(Scope(app_id="mail")))
    assert (report.memories, report.blocks, report.threads, report.messages) == (1, 1, 1, 1)
    (memory,) = await there.all(ALICE)
    assert memory.scope == mail
    thread = await there.store.get_thread(there.tenant.id, "t-alicemail")
    assert thread is not None
    assert thread.scope == Scope("alice", run_id="t-alicemail", app_id="mail")
    (block,) = await there.store.pinned_blocks(there.tenant.id, mail)
    assert block.scopes == (mail,)
    assert await there.store.pinned_blocks(there.tenant.id, ALICE) == []


async def test_without_apps_an_export_is_that_of_earlier_releases(
    here: Place, there: Place
) -> None:
    await here.memory.add(here.tenant, ALICE, "tea", infer=False)
    await pin(here, ALICE, "human", "Ann")
    await say(here, "alice", "t", "hello")
    content = await here.export()
    assert b"app_id" not in content
    older = content.replace(
        b'"scopes":[{"user_id":"alice"}]',
        b'"scopes":[{"user_id":"alice","agent_id":null,"run_id":null}]',
    )
    assert older != content
    report = await there.take(older)
    assert (report.memories, report.blocks, report.threads, report.messages) == (1, 1, 1, 1)
    assert (await here.take(older)).unchanged == 4


async def test_what_comes_in_is_found_at_once_and_by_a_view_that_was_there(
    here: Place, there: Place
) -> None:
    await there.memory.add(there.tenant, ALICE, "blue bicycle", infer=False)
    assert len(await there.memory.search(there.tenant, ALICE, "green tea")) == 1
    await here.memory.add(here.tenant, ALICE, "green tea", infer=False)
    await there.take(await here.export())
    hits = await there.memory.search(there.tenant, ALICE, "green tea")
    assert [hit.memory.text for hit in hits] == ["green tea", "blue bicycle"]


async def test_histories_keep_their_times_and_order(here: Place, there: Place) -> None:
    added = await here.memory.add(here.tenant, ALICE, "one", infer=False)
    for text in ("two", "three"):
        await here.memory.update(here.tenant, added[0].memory.id, text=text)
    await there.take(await here.export())
    of = added[0].memory.id
    expected = await here.memory.history(here.tenant, of)
    assert await there.memory.history(there.tenant, of) == expected
    assert [event.text for event in expected] == ["one", "two", "three"]


async def test_a_superseded_fact_and_its_messages_come_along(here: Place, there: Place) -> None:
    await extract(here, ALICE, "lives in Lyon", [])
    old = (await here.all(ALICE))[0]
    await extract(here, ALICE, "lives in Nice", [old])
    await there.take(await here.export())
    gone = await there.memory.get(there.tenant, old.id)
    assert (gone.status, gone.superseded_by) == ("superseded", (await here.all(ALICE))[0].id)
    assert [memory.text for memory in await there.all(ALICE)] == ["fact: lives in Nice"]
    removed = await there.memory.delete(there.tenant, gone.superseded_by or "")
    assert (removed.memories, removed.sources) == (1, 1)


async def test_what_is_here_stays_as_it_is(here: Place, there: Place) -> None:
    added = await here.memory.add(here.tenant, ALICE, "old", infer=False)
    content = await here.export()
    await there.take(content)
    await there.memory.update(there.tenant, added[0].memory.id, text="newer")
    report = await there.take(content)
    assert (report.memories, report.differing) == (0, 1)
    assert [memory.text for memory in await there.all(ALICE)] == ["newer"]


async def test_the_same_text_under_another_id_is_not_stored_twice(
    here: Place, there: Place
) -> None:
    await extract(here, ALICE, "likes tea", [])
    mine = await there.memory.add(there.tenant, ALICE, "fact: likes tea", infer=False)
    report = await there.take(await here.export())
    assert (report.memories, report.duplicates, report.links) == (1, 1, 1)
    removed = await there.memory.delete(there.tenant, mine[0].memory.id)
    assert removed.sources == 1  # the message is linked to the memory that was there


async def test_what_was_deleted_here_comes_back_only_if_asked_for(
    here: Place, there: Place
) -> None:
    added = await here.memory.add(here.tenant, ALICE, "secret", infer=False)
    content = await here.export()
    await there.take(content)
    assert len(await there.memory.search(there.tenant, ALICE, "secret")) == 1
    await there.memory.delete(there.tenant, added[0].memory.id)
    report = await there.take(content)
    assert (report.memories, report.deleted) == (0, 1)
    assert await there.all(ALICE) == []
    assert (await there.take(content, restore=True)).memories == 1
    hits = await there.memory.search(there.tenant, ALICE, "secret")
    assert [hit.memory.id for hit in hits] == [added[0].memory.id]
    await there.memory.delete(there.tenant, added[0].memory.id)
    assert await there.memory.search(there.tenant, ALICE, "secret") == []


async def test_a_view_that_missed_the_deletion_shows_what_came_back_once(here: Place) -> None:
    added = await here.memory.add(here.tenant, ALICE, "secret", infer=False)
    content = await here.export()
    assert len(await here.memory.search(here.tenant, ALICE, "secret")) == 1
    await here.store.delete_memory(here.tenant.id, added[0].memory.id)
    await here.take(content, restore=True)
    assert len(await here.memory.search(here.tenant, ALICE, "secret")) == 1


async def test_another_tenant_gets_ids_of_its_own_the_same_each_time(here: Place) -> None:
    await extract(here, ALICE, "lives in Lyon", [])
    old = (await here.all(ALICE))[0]
    await extract(here, ALICE, "lives in Nice", [old])
    content = await here.export()
    other = here.at(await here.store.create_tenant("other"))
    assert (await other.take(content)).memories == 4
    assert (await other.take(content)).unchanged == 4
    copied = await other.export()
    ids, new_ids = ({each.get("id") for each in lines(of)} for of in (content, copied))
    assert ids & new_ids == {None}
    links = [line for line in lines(copied) if line["type"] == "link"]
    assert len(links) == 3
    assert {link["target_id"] for link in links} <= new_ids


def lines(content: bytes) -> list[dict[str, Any]]:
    """The lines of an export, read."""
    return [json.loads(line) for line in content.splitlines()]


async def test_ids_that_another_tenant_has_or_had_are_never_taken(here: Place) -> None:
    added = await here.memory.add(here.tenant, ALICE, "a", infer=False)
    content = await here.export()
    other = here.at(await here.store.create_tenant("other"))
    for _ in range(2):
        await other.take(content, keep_ids=True)
        assert len(await other.all(ALICE)) == 1
        assert (await other.all(ALICE))[0].id != added[0].memory.id
    await here.memory.delete(here.tenant, added[0].memory.id)
    third = here.at(await here.store.create_tenant("third"))
    await third.take(content, keep_ids=True)
    assert (await third.all(ALICE))[0].id != added[0].memory.id
    events = await here.memory.history(here.tenant, added[0].memory.id)
    assert [event.event for event in events] == ["ADD", "DELETE"]


async def test_ids_can_be_kept_in_a_tenant_of_another_database(here: Place, there: Place) -> None:
    added = await here.memory.add(here.tenant, ALICE, "a", infer=False)
    other = there.at(await there.store.create_tenant("other"))
    await other.take(await here.export(), keep_ids=True)
    assert [memory.id for memory in await other.all(ALICE)] == [added[0].memory.id]


async def test_blocks_come_along_with_their_scopes_and_histories(here: Place, there: Place) -> None:
    await pin(here, ALICE, "human", "Alice")
    await pin(here, ALICE, "human", "Alice, from Lyon")
    await pin(here, Scope(agent_id="guide"), "persona", "A guide")
    await there.take(await here.export(ALICE))
    pinned = await there.store.pinned_blocks(there.tenant.id, Scope("alice", "guide"))
    assert [(block.label, block.value) for block in pinned] == [("human", "Alice, from Lyon")]
    events = await there.store.block_history(there.tenant.id, pinned[0].id)
    assert events == await here.store.block_history(here.tenant.id, pinned[0].id)
    content = await here.export()
    report = await there.take(content)
    assert (report.blocks, report.unchanged) == (1, 1)
    assert await there.export() == content


async def test_a_block_meets_what_is_here_as_a_memory_does(here: Place, there: Place) -> None:
    await pin(here, ALICE, "human", "theirs")
    content = await here.export()
    await pin(there, ALICE, "human", "ours")
    report = await there.take(content)
    assert (report.blocks, report.duplicates) == (0, 1)
    other = here.at(await here.store.create_tenant("other"))
    assert (await other.take(content, keep_ids=True)).blocks == 1
    assert (await other.take(content, keep_ids=True)).unchanged == 1
    mine = (await here.store.list_blocks(here.tenant.id, limit=9)).blocks[0]
    copied = (await other.store.list_blocks(other.tenant.id, limit=9)).blocks[0]
    assert (mine.value, mine.id != copied.id) == (copied.value, True)
    await here.store.delete_block(here.tenant.id, mine.id)
    assert (await here.take(content)).deleted == 1
    assert (await here.take(content, restore=True)).blocks == 1
    await here.store.delete_block(here.tenant.id, mine.id)


async def test_an_import_stops_at_the_tenants_limits(here: Place, there: Place) -> None:
    for user in ("alice", "alice", "bob"):
        await here.memory.add(here.tenant, Scope(user), f"of {user} {uuid.uuid4()}", infer=False)
    content = await here.export()
    await there.store.set_limits(there.tenant.id, {"memories_per_user": 1})
    with pytest.raises(QuotaExceeded, match="memories of this user"):
        await there.take(content)
    assert await there.all(*SCOPES) == []
    await there.store.set_limits(there.tenant.id, {"memories_per_user": None, "memories": 3})
    assert (await there.take(content)).memories == 3


async def test_a_dry_run_counts_and_writes_nothing(here: Place, there: Place) -> None:
    await here.memory.add(here.tenant, ALICE, "a", infer=False)
    before = await there.export()
    report = await there.take(await here.export(), dry_run=True)
    assert (report.memories, report.dry_run) == (1, True)
    assert await there.export() == before


async def test_vectors_that_come_along_are_not_made_again(here: Place, there: Place) -> None:
    await here.memory.add(here.tenant, ALICE, "a", infer=False)
    await there.take(await here.export(vectors=True))
    assert there.embedder.num_embedded == 0
    foreign = (await here.export(vectors=True)).replace(b"hash (32", b"else (32")
    await there.take(foreign, keep_ids=False)
    assert there.embedder.num_embedded == 0  # a duplicate needs none either


async def test_vectors_of_another_embedder_are_made_again(here: Place, there: Place) -> None:
    await here.memory.add(here.tenant, ALICE, "a", infer=False)
    await there.take((await here.export(vectors=True)).replace(b"hash (32", b"else (32"))
    assert there.embedder.num_embedded == 1


def changed(content: bytes, at: int, **fields: Any) -> bytes:
    """The export with fields of one line changed."""
    lines = content.splitlines()
    lines[at] = json.dumps({**json.loads(lines[at]), **fields}).encode()
    return b"\n".join([*lines, b""])


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"memory": " "}, "line 3: memory: text is empty or blank"),
        ({"user_id": "*"}, "line 3: user_id: id '*' must be non-empty"),
        ({"user_id": None}, "line 3: at least one of user_id"),
        ({"id": "no id"}, "line 3: id: String should match pattern"),
        ({"colour": 1}, "line 3: colour: Extra inputs are not permitted"),
        ({"created_at": "2026-01-01T00:00:00"}, "line 3: created_at: Input should have timezone"),
        ({"metadata": {"a": "\x00"}}, "line 3: metadata contains NUL"),
        ({"version": 2}, "line 3: versions has no version 2"),
        ({"vector": "AAAA"}, "line 3: vector is not base64 of float32"),
        ({"type": "wish"}, "line 3: Input tag 'wish'"),
    ],
)
async def test_a_bad_line_is_named_and_nothing_is_written(
    here: Place, there: Place, fields: dict[str, Any], reason: str
) -> None:
    await here.memory.add(here.tenant, ALICE, "good", infer=False)
    await here.memory.add(here.tenant, ALICE, "bad", infer=False)
    content = changed(await here.export(), 2, **fields)
    with pytest.raises(InvalidInput, match="nothing was imported") as caught:
        await there.take(content)
    assert reason in caught.value.message
    assert await there.all(ALICE) == []
    report = await there.take(content, skip_invalid=True)
    assert report.memories == 1
    assert [memory.text for memory in await there.all(ALICE)] == ["good"]


@pytest.mark.parametrize(
    ("cut", "reason"),
    [
        (lambda lines: lines[:-1], "the end is missing"),
        (lambda lines: [*lines[:2], lines[-1]], "lines are missing"),
        (lambda lines: [*lines, lines[1]], "more after the end"),
        (lambda lines: [lines[0], *lines], "a header in the middle"),
        (lambda lines: [*lines[:1], lines[1][:40], *lines[2:]], "line 2: Invalid JSON"),
    ],
)
async def test_a_damaged_file_is_refused(here: Place, there: Place, cut: Any, reason: str) -> None:
    await here.memory.add(here.tenant, ALICE, "a", infer=False)
    await here.memory.add(here.tenant, ALICE, "b", infer=False)
    lines = (await here.export()).splitlines()
    with pytest.raises(InvalidInput) as caught:
        await there.take(b"\n".join([*cut(lines), b""]))
    assert reason in caught.value.message


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "its first line is no header"),
        (b"hello\n", "its first line is no header"),
        (b'{"type":"end","memories":0,"links":0}\n', "its first line is a end"),
        (
            b'{"type":"header","format":"inferscale-memories","version":9,"tenant":"t"}\n',
            "import it with a newer release",
        ),
    ],
)
async def test_what_is_no_export_is_refused(there: Place, content: bytes, reason: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        await there.take(content)
    assert reason in caught.value.message


async def test_an_end_goes_along_and_what_has_expired_does_not(here: Place, there: Place) -> None:
    soon = datetime.now(UTC) + timedelta(seconds=0.3)
    later = soon + timedelta(days=1)
    await here.memory.add(here.tenant, ALICE, "tea", infer=False, expires_at=soon)
    await here.memory.add(here.tenant, ALICE, "milk", infer=False, expires_at=later)
    before = await here.export()
    await asyncio.sleep(0.4)
    assert (await there.take(await here.export())).memories == 1
    report = await there.take(before, restore=True)
    assert (report.memories, report.unchanged, report.deleted) == (0, 1, 1)
    assert [(m.text, m.expires_at) for m in await there.all()] == [("milk", later)]


async def test_what_has_expired_here_does_not_stand_in_the_way(here: Place, there: Place) -> None:
    soon = datetime.now(UTC) + timedelta(seconds=0.3)
    await there.memory.add(there.tenant, ALICE, "tea", infer=False, expires_at=soon)
    await here.memory.add(here.tenant, ALICE, "tea", infer=False)
    await asyncio.sleep(0.4)
    assert (await there.take(await here.export(), dry_run=True)).memories == 1
    assert (await there.take(await here.export())).memories == 1
    assert [memory.expires_at for memory in await there.all()] == [None]
