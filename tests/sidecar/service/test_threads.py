"""Threads as conversations: kept, remembered, and the context of what was said last."""

from typing import Any

import pytest

from inferscale.protocol.memory import Message
from inferscale_sidecar.core import Scope
from inferscale_sidecar.errors import NotFound, Unsupported
from inferscale_sidecar.store.block_port import BlockDraft

ALICE = Scope("alice")


async def _thread(world: Any, thread: str = "t1", scope: Scope = ALICE) -> Any:
    return await world.threads.create(world.tenant, thread, scope)


async def _add(world: Any, *texts: str, thread: str = "t1", **options: Any) -> Any:
    messages = [Message(content=text) for text in texts]
    return await world.threads.add_messages(world.tenant, thread, messages, **options)


async def test_messages_are_kept_and_remembered_only_if_asked(world: Any) -> None:
    await _thread(world)
    messages = [
        Message(role="system", content="Be brief."),
        Message(content="I like tea", name="Al"),
        Message(role="assistant", content=[{"type": "text", "text": "Fine."}]),
        Message(role="assistant", content=None),
    ]
    added = await world.threads.add_messages(world.tenant, "t1", messages)
    assert [(m.role, m.content, m.name) for m in added.messages] == [
        ("system", "Be brief.", None),
        ("user", "I like tea", "Al"),
        ("assistant", "Fine.", None),
    ]
    assert added.additions.results == []
    assert (await world.memory.list(world.tenant, ALICE)).total == 0
    await world.threads.add_messages(
        world.tenant, "t1", messages, infer=False, metadata={"a": 1}, idempotency_key="k"
    )
    again = await world.threads.add_messages(
        world.tenant, "t1", messages, infer=False, metadata={"a": 1}, idempotency_key="k"
    )
    assert len(again.messages) == 3
    found = await world.memory.list(world.tenant, Scope("alice", run_id="t1"))
    assert {m.text for m in found.memories} == {"I like tea", "Fine."}
    assert {str(m.metadata) for m in found.memories} == {"{'a': 1}"}
    page = await world.threads.messages(world.tenant, "t1")
    assert page.total == 6


async def test_without_an_llm_the_messages_are_kept_and_it_says_so(world: Any) -> None:
    await _thread(world)
    with pytest.raises(Unsupported, match="infer"):
        await _add(world, "I like tea", infer=True)
    assert (await world.threads.messages(world.tenant, "t1")).total == 1


async def test_context_is_the_users_with_blocks_and_the_last_messages(world: Any) -> None:
    await _thread(world, "t1")
    await _thread(world, "t2", Scope("alice", "a"))
    await _thread(world, "t3", Scope("bob"))
    await _add(world, "tea is fine", infer=False)
    await _add(world, "bob drinks tea", thread="t3", infer=False)
    await _add(world, *(f"talk {n}" for n in range(5)), "which tea", thread="t2")
    for label, scope in (
        ("human", ALICE),
        ("persona", Scope(agent_id="a")),
        ("plan", Scope(run_id="t2")),
    ):
        draft = BlockDraft(label, label.upper(), 99)
        await world.blocks.create(world.tenant, scope, draft)
    found = await world.threads.context(world.tenant, "t2", k=1, num_messages=2, last=1)
    assert [m.content for m in found.messages] == ["talk 4", "which tea"]
    assert [b.label for b in found.composition.blocks] == ["persona", "human", "plan"]
    assert [i.text for i in found.composition.items] == ["tea is fine"]
    handle = found.composition.handle
    assert await world.recall.resolve(world.tenant, handle) == found.composition
    budget = await world.threads.context(world.tenant, "t2", max_tokens=6)
    assert not budget.composition.items and not budget.messages


async def test_an_empty_thread_has_the_blocks_for_context(world: Any) -> None:
    await _thread(world)
    await world.memory.add(world.tenant, ALICE, [Message(content="tea is fine")])
    await world.blocks.create(world.tenant, ALICE, BlockDraft("human", "Al", 9))
    found = await world.threads.context(world.tenant, "t1", num_messages=5)
    assert not found.composition.items and not found.messages
    assert [b.value for b in found.composition.blocks] == ["Al"]


async def test_a_thread_goes_with_what_was_remembered_unless_that_is_kept(world: Any) -> None:
    for thread in ("t1", "t2"):
        await _thread(world, thread)
        await _add(world, f"tea {thread}", thread=thread, infer=False)
    removed = await world.threads.delete(world.tenant, "t1")
    assert (removed.threads, removed.messages, removed.memories) == (1, 1, 1)
    removed = await world.threads.delete(world.tenant, "t2", keep_memories=True)
    assert (removed.threads, removed.messages, removed.memories) == (1, 1, 0)
    found = await world.memory.search(world.tenant, ALICE, "tea")
    assert [hit.memory.text for hit in found] == ["tea t2"]


async def test_another_tenants_thread_is_not_there(world: Any) -> None:
    await _thread(world)
    (message,) = (await _add(world, "x")).messages
    threads, other = world.threads, world.other
    for attempt in (
        threads.get(other, "t1"),
        threads.add_messages(other, "t1", "x"),
        threads.messages(other, "t1"),
        threads.context(other, "t1"),
        threads.delete_message(other, "t1", message.id),
        threads.delete(other, "t1"),
        threads.delete(other, "t1", keep_memories=True),
    ):
        with pytest.raises(NotFound):
            await attempt
    assert (await threads.list(other, Scope())).total == 0
    assert (await threads.messages(world.tenant, "t1")).total == 1
