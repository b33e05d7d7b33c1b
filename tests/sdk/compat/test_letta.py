"""Letta's passages and blocks over the real service; everything else refused."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from inferscale import InvalidArgumentError
from inferscale.compat.letta import AsyncLetta, DialectError, Letta, NotFoundError

from .conftest import BASE_URL, Awaited


@pytest.fixture
def letta(connect: Callable[..., Awaited], http_client: Any, api_key: str) -> Awaited:
    return connect(Letta, AsyncLetta, api_key=api_key, base_url=BASE_URL, http_client=http_client)


@pytest.fixture
async def passages(letta: Awaited) -> list[Any]:
    return [
        (await letta.agents.passages.create("a1", text=text, tags=tags))[0]
        for text, tags in (
            ("Alice likes tea", ["food", "drinks"]),
            ("Alice likes cake", ["food"]),
            ("Alice lives in Oslo", None),
        )
    ]


async def test_a_passage_is_what_was_written(letta, passages):
    passage = passages[0]
    assert (passage.text, passage.tags, passage.metadata) == (
        *("Alice likes tea", ["food", "drinks"]),
        None,
    )
    assert passage.created_at.tzinfo and passages[2].tags is None
    assert await letta.agents.passages.list("a1") == passages
    assert await letta.agents.passages.list("a2") == []


async def test_the_same_text_again_is_one_passage_with_all_tags(letta, passages):
    again = await letta.agents.passages.create("a1", text="Alice likes cake", tags=["sweet"])
    assert again[0].id == passages[1].id and again[0].tags == ["food", "sweet"]
    assert len(await letta.agents.passages.list("a1")) == 3


async def test_listing_goes_both_ways_and_from_anywhere(letta, passages):
    ids = [passage.id for passage in passages]

    async def listed(**arguments):
        return [each.id for each in await letta.agents.passages.list("a1", **arguments)]

    assert await listed(ascending=False) == ids[::-1]
    assert await listed(limit=2) == ids[:2]
    assert await listed(after=ids[0]) == ids[1:]
    assert await listed(before=ids[2], after=ids[0]) == ids[1:2]
    assert await listed(after=ids[2], ascending=False, limit=1) == [ids[1]]
    assert await listed(search="LIKES") == ids[:2]
    with pytest.raises(NotFoundError):
        await listed(after="nope")


async def test_search_narrows_by_tags_and_times(letta, passages):
    async def found(**arguments):
        answer = await letta.agents.passages.search("a1", query="Alice likes", **arguments)
        assert answer.count == len(answer.results)
        return {each.content for each in answer.results}

    assert len(await found()) == 3
    assert len(await found(top_k=1)) == 1
    assert await found(tags=["drinks"]) == {"Alice likes tea"}
    assert await found(tags=["food", "x"]) == {"Alice likes tea", "Alice likes cake"}
    assert await found(tags=["food", "drinks"], tag_match_mode="all") == {"Alice likes tea"}
    later = datetime.now(UTC) + timedelta(days=1)
    assert await found(start_datetime=later) == set()
    assert len(await found(end_datetime=later.isoformat(), start_datetime="2020-01-01")) == 3
    with pytest.raises(InvalidArgumentError, match="tag_match_mode"):
        await found(tags=["food"], tag_match_mode="some")


async def test_search_across_gives_passages_with_scores(letta, passages):
    best = (await letta.passages.search(query="Alice likes tea", agent_id="a1", limit=1))[0]
    assert best.passage == passages[0] and best.score == pytest.approx(1, abs=1e-3)


async def test_a_passage_is_deleted_by_its_agent_only(letta, passages):
    with pytest.raises(NotFoundError, match="a2"):
        await letta.agents.passages.delete(passages[0].id, agent_id="a2")
    assert await letta.agents.passages.delete(passages[0].id, agent_id="a1") is None
    assert await letta.agents.passages.list("a1") == passages[1:]
    with pytest.raises(NotFoundError):
        await letta.agents.passages.delete(memory_id=passages[0].id, agent_id="a1")


async def test_a_block_is_pinned_to_the_agents_it_is_attached_to(letta):
    block = await letta.blocks.create(
        label="human", value="Alice", description="who", tags=["x"], metadata={"a": 1}
    )
    assert (block.label, block.value, block.description) == ("human", "Alice", "who")
    assert (block.tags, block.metadata, block.limit) == (["x"], {"a": 1}, 5000)
    assert await letta.blocks.retrieve(block.id) == block
    assert (await letta.agents.blocks.list("a1")).items == []
    agent = await letta.agents.blocks.attach(block.id, agent_id="a1")
    assert (agent.id, agent.blocks) == ("a1", [block])
    await letta.agents.blocks.attach(block_id=block.id, agent_id="a2")
    assert [each.id for each in await letta.blocks.agents.list(block.id)] == ["a1", "a2"]
    handle = await letta.inferscale.recall("anything", agent_id="a1", user_id="alice")
    assert "Alice" in handle.text
    changed = await letta.agents.blocks.update("human", agent_id="a2", value="Alice Lund")
    assert (changed.value, changed.tags) == ("Alice Lund", ["x"])
    assert (await letta.agents.blocks.retrieve("human", agent_id="a1")) == changed
    assert (await letta.agents.blocks.detach(block.id, agent_id="a1")).blocks == []
    with pytest.raises(NotFoundError, match="a1"):
        await letta.agents.blocks.retrieve("human", agent_id="a1")
    assert await letta.blocks.delete(block.id) is None
    for attempt in (letta.blocks.retrieve(block.id), letta.blocks.delete(block.id)):
        with pytest.raises(NotFoundError):
            await attempt


async def test_tags_and_metadata_change_apart(letta):
    block = await letta.blocks.create(label="human", value="", tags=["x"], metadata={"a": 1})
    changed = await letta.blocks.update(block.id, tags=["y", "z"])
    assert (changed.tags, changed.metadata) == (["y", "z"], {"a": 1})
    changed = await letta.blocks.update(block.id, metadata={"b": 2}, read_only=True)
    assert (changed.tags, changed.metadata, changed.read_only) == (["y", "z"], {"b": 2}, True)
    changed = await letta.blocks.update(block.id, metadata={}, tags=[])
    assert (changed.tags, changed.metadata) == (None, None)


async def test_blocks_are_listed_by_what_they_are(letta):
    one = await letta.blocks.create(label="human", value="Tea", tags=["x", "y"])
    two = await letta.blocks.create(label="human", value="Rum", tags=["y"])
    three = await letta.blocks.create(label="persona", value="Kind", description="The voice")

    async def listed(**arguments):
        page = await letta.blocks.list(**arguments)
        assert [each async for each in page] == list(page)
        return [each.id for each in page]

    ids = [one.id, two.id, three.id]
    assert await listed() == ids
    assert await listed(order="desc", limit=2) == ids[:0:-1]
    assert await listed(after=ids[0], before=ids[2]) == [two.id]
    assert await listed(label="human") == ids[:2]
    assert await listed(label_search="PERS") == [three.id]
    assert await listed(value_search="tea") == [one.id]
    assert await listed(description_search="voice") == [three.id]
    assert await listed(tags=["x", "y"]) == ids[:2]
    assert await listed(tags=["x", "y"], match_all_tags=True) == [one.id]
    with pytest.raises(NotFoundError):
        await listed(after="block-none")
    with pytest.raises(InvalidArgumentError, match="order"):
        await listed(order="random")


NOT_HONOURED = [
    lambda c: c.blocks.create(label="human", value="Alice", project_id="p"),
    lambda c: c.blocks.update("block-1", hidden=True),
    lambda c: c.blocks.list(identity_id="i"),
    lambda c: c.agents.blocks.update("human", agent_id="a1", template_id="x"),
    lambda c: c.agents.create(name="x"),
    lambda c: c.agents.messages.create("a1", input="hi"),
    lambda c: c.archives.create(name="x"),
    lambda c: c.tools.list(),
    lambda c: c.agents.passages.create("a1", text="x", created_at="2025-01-01T00:00:00Z"),
    lambda c: c.passages.search(query="x"),
    lambda c: c.passages.search(query="x", archive_id="r1"),
    lambda c: c.passages.search(agent_id="a1"),
]


async def test_what_cannot_be_honoured_is_refused_with_a_sentence(letta):
    for call in NOT_HONOURED:
        with pytest.raises(NotImplementedError, match=r"cannot be honoured: .{10}"):
            await call(letta)
    assert await letta.agents.passages.list("a1") == []


async def test_ids_are_not_patterns(letta, passages):
    for call in (
        letta.agents.passages.list("*"),
        letta.agents.passages.create("", text="x"),
        letta.agents.passages.search("*", query="x"),
    ):
        with pytest.raises(InvalidArgumentError):
            await call


def test_lettas_own_service_and_its_key_are_not_used(monkeypatch):
    monkeypatch.setenv("LETTA_API_KEY", "sk-let-secret")
    assert "sk-let-secret" not in str(vars(Letta().inferscale._transport.config))
    for arguments in ({"base_url": "https://api.letta.com"}, {"project": "p"}):
        with pytest.raises(DialectError):
            Letta(**arguments)
    with pytest.raises(TypeError, match="tokn"):
        Letta(tokn="x")
