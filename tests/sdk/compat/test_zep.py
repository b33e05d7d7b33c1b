"""Zep's clients over the real service: users, threads, contexts with handles, facts, refusals."""

from collections.abc import Callable
from typing import Any

import pytest

from inferscale import ConflictError, InvalidArgumentError, MemoryHandle
from inferscale.compat.zep import (
    AsyncZep,
    DialectError,
    EpisodeData,
    Message,
    NotFoundError,
    Zep,
)

from .conftest import BASE_URL, Awaited


@pytest.fixture
def open_zep(connect: Callable[..., Awaited], http_client: Any, api_key: str) -> Any:
    """Makes another client of the same tenant, as another process would."""
    return lambda: connect(
        Zep, AsyncZep, api_key=api_key, base_url=BASE_URL, httpx_client=http_client
    )


@pytest.fixture
def zep(open_zep: Callable[[], Awaited]) -> Awaited:
    return open_zep()


async def test_the_quickstart_of_v3(zep):
    user = await zep.user.add(
        user_id="alice", email="al@example.com", first_name="Alice", last_name="Lund"
    )
    assert (user.user_id, user.first_name, user.email) == ("alice", "Alice", "al@example.com")
    thread = await zep.thread.create(thread_id="t1", user_id="alice")
    assert (thread.thread_id, thread.user_id, thread.uuid_) == ("t1", "alice", "t1")
    messages = [
        Message(role="user", name="Alice", content="I live in Oslo"),
        Message(role="assistant", content="A fine city"),
    ]
    answer = await zep.thread.add_messages("t1", messages=messages, return_context=True)
    assert len(answer.message_uuids) == 2 and "I live in Oslo" in answer.context
    context = await zep.thread.get_user_context(thread_id="t1")
    assert "Alice Lund" in context.context and "I live in Oslo" in context.context
    assert isinstance(context.handle, MemoryHandle) and str(context.handle) == context.context
    assert context.handle.user_id == "alice"
    results = await zep.graph.search(user_id="alice", query="where does she live", scope="edges")
    assert "I live in Oslo" in {edge.fact for edge in results.edges}


async def test_the_same_in_v4(zep):
    user = await zep.user.create(first_name="Bob", idempotency_key="k1")
    thread = await zep.thread.create(user_uuid=user.uuid_)
    await zep.thread.add_messages(
        thread.uuid_,
        messages=[{"role": "user", "content": "I like tea"}],
        idempotency_key="k2",
    )
    context = await zep.thread.get_context(thread.uuid_)
    assert "I like tea" in context.context and len(context.handle) == 2
    page = await zep.graph.search_edges(user.graph_uuid, query="tea", page_size=1)
    assert [edge.fact for edge in page] == ["I like tea"] and not page.has_next
    found = await zep.graph.get_context(user.graph_uuid, query="tea", include_results=True)
    assert found.context == context.context or "I like tea" in found.context
    assert {edge.fact for edge in found.results.edges} == {"I like tea", "The user's name is Bob."}
    assert (await zep.user.lookup(user_id=user.user_id)).uuid_ == user.uuid_
    assert (await zep.thread.lookup(thread_id=thread.thread_id)).user_uuid == user.uuid_
    assert (await zep.graph.lookup(user_id=user.user_id)).uuid_ == user.graph_uuid


async def test_a_user_is_read_changed_and_forgotten(zep):
    await zep.user.add(user_id="alice", first_name="Alice", metadata={"plan": "pro"})
    await zep.user.add(user_id="alice", first_name="Alice", metadata={"plan": "pro"})
    await zep.user.update("alice", last_name="Lund")
    user = await zep.user.get("alice")
    assert (user.first_name, user.last_name, user.metadata) == ("Alice", "Lund", {"plan": "pro"})
    facts = await zep.graph.edge.get_by_user_id("alice")
    assert [edge.fact for edge in facts] == ["The user's name is Alice Lund."]
    await zep.user.update(user_uuid="alice", metadata={"plan": "free"})
    assert (await zep.user.get(user_uuid="alice")).metadata == {"plan": "free"}
    await zep.thread.create(thread_id="t1", user_id="alice")
    assert [t.thread_id for t in await zep.user.get_threads("alice")] == ["t1"]
    assert (await zep.user.delete("alice")).task is None
    for attempt in (zep.user.get("alice"), zep.thread.get("t1")):
        with pytest.raises(NotFoundError):
            await attempt


async def test_a_user_without_a_name_needs_no_memory(zep):
    assert (await zep.user.add(user_id="alice")).graph_uuid
    assert await zep.graph.edge.get_by_user_id("alice") == []
    with pytest.raises(NotFoundError, match="alice"):
        await zep.user.get("alice")


async def test_messages_come_back_as_they_were(zep, open_zep):
    await zep.thread.create(thread_id="t1", user_id="alice")
    said_at = "2025-05-01T10:00:00Z"
    sent = [
        Message(role="user", name="Al", content="one", created_at=said_at, metadata={"n": 1}),
        Message(role="assistant", content="two"),
        Message(role="user", content="three", metadata={"n": 3}),
    ]
    await zep.thread.add_messages(thread_id="t1", messages=sent)
    other = open_zep()  # which did not create the thread
    got = await other.thread.get("t1")
    assert [(m.role, m.content, m.name, m.metadata) for m in got.messages] == [
        (m.role, m.content, m.name, m.metadata) for m in sent
    ]
    assert got.messages[0].created_at == said_at and got.messages[1].created_at > "2026"
    assert (got.row_count, got.total_count, got.user_id) == (3, 3, "alice")
    last = await other.thread.get(thread_uuid="t1", lastn=2)
    assert [m.content for m in last.messages] == ["two", "three"]
    some = await other.thread.get("t1", limit=1, cursor=1)
    assert [m.content for m in some.messages] == ["two"] and some.total_count == 3
    page = await other.thread.list_messages("t1", page_size=2, order="desc")
    assert [m.content for m in page.items] == ["three", "two"] and page.has_next
    rest = await other.thread.list_messages(
        "t1", page_size=2, cursor=page.next_cursor, order="desc"
    )
    assert [m.content for m in rest] == ["one"] and not rest.has_next
    assert [m.content async for m in rest] == ["one"]


async def test_context_comes_from_all_threads_of_the_user_and_from_no_one_elses(zep):
    for thread, user, text in (
        ("t1", "alice", "tea is what I like"),
        ("t2", "alice", "do you know what I like"),
        ("t3", "bob", "beer is what I like"),
    ):
        await zep.thread.create(thread_id=thread, user_id=user)
        await zep.thread.add_messages(thread, messages=[{"role": "user", "content": text}])
    context = await zep.thread.get_user_context("t2", mode="basic")
    assert "tea" in context.context and "beer" not in context.context
    threads = await zep.thread.list(user_uuid="alice")
    assert [t.thread_id for t in threads] == ["t1", "t2"]
    await zep.thread.delete("t1")
    context = await zep.thread.get_user_context("t2")
    assert "tea" not in context.context and "do you know" in context.context


async def test_a_thread_belongs_to_one_user(zep, open_zep):
    await zep.thread.create(thread_id="t1", user_id="alice")
    await zep.thread.create(thread_id="t1", user_id="alice")
    await zep.thread.add_messages("t1", messages=[{"role": "user", "content": "x"}])
    for client in (zep, open_zep()):
        with pytest.raises(ConflictError, match="another user"):
            await client.thread.create(thread_id="t1", user_id="bob")
    with pytest.raises(NotFoundError, match=r"thread\.create"):
        await zep.thread.add_messages("t9", messages=[{"role": "user", "content": "x"}])


async def test_a_thread_without_messages_has_an_empty_context_but_for_blocks(zep):
    await zep.thread.create(thread_id="t1", user_id="alice")
    context = await zep.thread.get_user_context("t1")
    assert (context.context, context.handle) == ("", None)
    await zep.inferscale.blocks.create("human", "Name: Al", user_id="alice")
    context = await zep.thread.get_user_context("t1")
    assert "Name: Al" in context.context and context.handle.text == context.context


async def test_the_same_words_again_are_two_messages_and_one_memory(zep):
    await zep.thread.create(thread_id="t1", user_id="alice")
    for key in ("k1", "k2", "k2"):
        said = [Message(role="user", content="Yes."), Message(role="assistant", content="Good.")]
        await zep.thread.add_messages("t1", messages=said, idempotency_key=key)
    assert [m.content for m in (await zep.thread.get("t1")).messages] == ["Yes.", "Good."] * 2
    assert len(await zep.graph.edge.get_by_user_id("alice")) == 2


async def test_threads_are_known_without_messages_and_to_every_client(zep, open_zep):
    for thread, user in (("t1", "alice"), ("t2", "bob"), ("t3", "alice")):
        await zep.thread.create(thread_id=thread, user_id=user)
    other = open_zep()
    assert [t.thread_id for t in await other.user.get_threads("alice")] == ["t1", "t3"]
    assert (await other.user.get("bob")).user_id == "bob"
    page = await other.thread.list(page_size=2)
    assert [t.thread_id for t in page.items] == ["t1", "t2"] and page.has_next
    rest = await other.thread.list(page_size=2, cursor=page.next_cursor)
    assert [t.thread_id for t in rest.items] == ["t3"] and not rest.has_next
    found = await other.thread.list_all(page_size=2, page_number=2)
    assert ([t.thread_id for t in found.threads], found.total_count) == (["t3"], 3)
    newest = (await other.thread.list_all(asc=False)).threads
    assert [t.thread_id for t in newest] == ["t3", "t2", "t1"]
    assert (await other.thread.get("t1")).messages == []
    await other.thread.delete("t1")
    with pytest.raises(NotFoundError, match=r"thread\.create"):
        await zep.thread.get_user_context("t1")


async def test_handles_stay_out_of_dumps(zep):
    await zep.graph.add(user_id="alice", data="I like tea")
    found = await zep.graph.search(user_id="alice", query="tea", scope="auto")
    assert len(found.handle) == 1 and found.context == found.handle.text
    assert found.handle.id not in found.model_dump_json()
    assert found.handle.id not in repr(found)


async def test_texts_are_added_to_users_and_to_graphs(zep):
    episode = await zep.graph.add(
        user_id="alice",
        type="text",
        data="Alice likes tea",
        created_at="2025-05-01T10:00:00Z",
        metadata={"a": 1},
        source_description="diary",
    )
    assert (episode.content, episode.metadata, episode.source) == (
        *("Alice likes tea", {"a": 1}),
        "text",
    )
    assert (episode.created_at, episode.source_description) == ("2025-05-01T10:00:00Z", "diary")
    graph = await zep.graph.create(graph_id="g1")
    pieces = [EpisodeData(data="Oslo is in Norway", type="text"), {"data": "Rome is in Italy"}]
    assert len(await zep.graph.add_batch(graph_id="g1", episodes=pieces)) == 2
    result = await zep.graph.episode.add(graph.uuid_, data="Bern is in Switzerland")
    assert (await zep.graph.episode.get("g1", result.episode.uuid_)) == result.episode
    found = await zep.graph.search(graph_id="g1", query="is in", scope="episodes", limit=50)
    assert len(found.episodes) == 3 and found.edges is None
    assert all(edge.score is not None for edge in found.episodes)
    assert len(await zep.graph.edge.get_by_graph_id("g1", limit=2)) == 2
    everything = await zep.graph.episode.get_by_graph_id("g1", lastn=1)
    assert [each.content for each in everything.episodes] == ["Bern is in Switzerland"]
    assert (await zep.graph.get("g1")).uuid_ == "g1"
    await zep.graph.delete("g1")
    with pytest.raises(NotFoundError):
        await zep.graph.get(graph_uuid="g1")
    assert len(await zep.graph.edge.get_by_user_id("alice")) == 1


async def test_facts_keep_their_times_and_names(zep):
    added = await zep.graph.add_fact_triple(
        user_id="alice",
        fact="Alice works at Acme",
        fact_name="WORKS_AT",
        source_node_name="Alice",
        target_node_name="Acme",
        valid_at="2024-01-01T00:00:00Z",
        edge_attributes={"role": "boss"},
    )
    user_graph = (await zep.graph.lookup(user_id="alice")).uuid_
    edge = await zep.graph.edge.get(uuid_=added.edge.uuid_)
    assert edge == added.edge == await zep.graph.edge.get(user_graph, edge.uuid_)
    assert (edge.fact, edge.name, edge.valid_at) == (
        *("Alice works at Acme", "WORKS_AT"),
        "2024-01-01T00:00:00Z",
    )
    assert (edge.source_node_name, edge.attributes) == ("Alice", {"role": "boss"})
    again = await zep.graph.edge.add(
        user_graph,
        edges=[{"fact": "Alice works at Acme", "fact_name": "EMPLOYED_BY", "target_node": {}}],
    )
    assert again.edges[0].uuid_ == edge.uuid_ and again.edges[0].name == "EMPLOYED_BY"
    changed = await zep.graph.edge.update(edge.uuid_, fact="Alice left Acme")
    assert changed.fact == "Alice left Acme"
    with pytest.raises(NotFoundError):
        await zep.graph.edge.get("user:bob", edge.uuid_)
    await zep.graph.edge.delete(edge.uuid_)
    with pytest.raises(NotFoundError):
        await zep.graph.edge.delete(user_graph, edge.uuid_)


NOT_HONOURED = [
    lambda z: z.user.add(user_id="alice", time_zone="Europe/Oslo"),
    lambda z: z.user.add(user_id="alice", metadata={"a": 1}),
    lambda z: z.user.list_ordered(),
    lambda z: z.user.get_node("alice"),
    lambda z: z.thread.add_messages("t1", messages=[], ignore_roles=["assistant"]),
    lambda z: z.thread.get_user_context("t1", template_id="x"),
    lambda z: z.thread.get_user_context("t1", mode="summary"),
    lambda z: z.thread.get_summary("t1"),
    lambda z: z.thread.list(order="desc"),
    lambda z: z.thread.list_all(order_by="user_id"),
    lambda z: z.thread.message.update("m1", metadata={}),
    lambda z: z.graph.add(user_id="alice", type="json", data="{}"),
    lambda z: z.graph.search(user_id="alice", query="x", scope="nodes"),
    lambda z: z.graph.search(user_id="alice", query="x", reranker="node_distance"),
    lambda z: z.graph.search(user_id="alice", query="x", mmr_lambda=0.5),
    lambda z: z.graph.get_context("g1", query="x", recency_bias=0.5),
    lambda z: z.graph.search(user_id="alice", query="x", search_filters={"edge_types": ["A"]}),
    lambda z: z.graph.search_nodes("g1", query="x"),
    lambda z: z.graph.create(graph_id="g1", description="places"),
    lambda z: z.graph.node.get("n1"),
    lambda z: z.graph.set_ontology({}),
    lambda z: z.batch.create(),
    lambda z: z.agent.skill.list("a"),
]


async def test_rerankers_that_we_have(zep):
    for fact in ("tea", "tea tea", "green tea and many words", "tea tea tea"):
        await zep.graph.add(user_id="alice", data=fact)

    async def found(**how):
        result = await zep.graph.search(user_id="alice", query="tea", limit=4, **how)
        return [edge.fact for edge in result.edges]

    plain = await found()
    assert await found(reranker="rrf") == plain
    assert await found(reranker="mmr", mmr_lambda=1.0) == plain
    varied = await found(reranker="mmr", mmr_lambda=0.1)
    assert varied[0] == plain[0] and varied[1] == "green tea and many words"
    assert (await found(reranker="cross_encoder"))[0] == "green tea and many words"
    edges = await zep.graph.search_edges("user:alice", query="tea", reranker="cross_encoder")
    assert edges.items[0].fact == "green tea and many words"


async def test_what_cannot_be_honoured_is_refused_with_a_sentence(zep):
    for call in NOT_HONOURED:
        with pytest.raises(NotImplementedError, match=r"cannot be honoured: .{10}") as caught:
            await call(zep)
        assert isinstance(caught.value, DialectError)


async def test_a_graph_is_named_once_and_ids_are_not_patterns(zep):
    await zep.graph.add(user_id="alice", data="I like tea")
    await zep.thread.create(thread_id="t1", user_id="alice")
    for call in (
        zep.graph.search(query="x"),
        zep.graph.search(query="x", user_id="alice", graph_id="g1"),
        zep.graph.search(query="x", user_id="*"),
        zep.graph.search(query="x", user_id="alice", limit=51),
        zep.user.delete("*"),
        zep.user.get(),
        zep.graph.add(user_id="alice", data="  "),
        zep.graph.add(user_id="alice", data="x", metadata={"zep_kind": "user"}),
        zep.thread.add_messages("t1", messages=["just a text"]),
    ):
        with pytest.raises(InvalidArgumentError):
            await call
    with pytest.raises(TypeError, match="limt"):
        await zep.graph.search(query="x", user_id="alice", limt=1)
    assert len(await zep.graph.edge.get_by_user_id("alice")) == 1


def test_zeps_own_service_and_its_key_are_not_used(monkeypatch):
    monkeypatch.setenv("ZEP_API_KEY", "z_secret")
    assert "z_secret" not in str(vars(Zep().inferscale._transport.config))
    for arguments in ({"base_url": "https://api.getzep.com/api/v2"}, {"environment": "x"}):
        with pytest.raises(DialectError):
            Zep(**arguments)
