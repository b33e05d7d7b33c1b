"""`memory.threads` against the real application."""

import inspect
from typing import Any

import httpx
import pytest

import inferscale
from inferscale import (
    AsyncMemory,
    AsyncThreads,
    ConflictError,
    InvalidArgumentError,
    Memory,
    MemoryHandle,
    NotFoundError,
    Threads,
    UnsupportedError,
)

from .compat.conftest import (  # noqa: F401  fixtures
    BASE_URL,
    Awaited,
    api_key,
    connect,
    http_client,
    kind,
)
from .compat.conftest import sidecar as real_sidecar  # noqa: F401
from .conftest import NOW


@pytest.fixture(scope="session")
def sidecar(real_sidecar: Any) -> Any:  # noqa: F811
    return real_sidecar


@pytest.fixture
def memory(connect: Any, http_client: Any, api_key: str) -> Awaited:  # noqa: F811
    return connect(Memory, AsyncMemory, api_key=api_key, base_url=BASE_URL, http_client=http_client)


async def test_a_conversation_and_its_context(memory: Any) -> None:
    thread = await memory.threads.create("alice", thread_id="t1", metadata={"a": 1})
    assert (thread.id, thread.user_id, thread["metadata"]) == ("t1", "alice", {"a": 1})
    assert await memory.threads.create("alice", thread_id="t1") == thread
    await memory.blocks.create("human", "Name: Al", user_id="alice")
    added = await memory.threads.add_messages(
        "t1", [{"role": "user", "content": "tea is fine", "name": "Al"}], infer=False
    )
    assert [m.content for m in added.messages] == [r.memory for r in added.results]
    await memory.threads.add_messages("t1", "which tea")
    context = await memory.threads.get_context("t1", k=5, last=1, messages=1)
    assert isinstance(context.handle, MemoryHandle) and context.text == str(context)
    assert "tea is fine" in context.text and "Name: Al" in context.text
    assert [m.content for m in context.messages] == ["which tea"]
    assert context.summary is None
    assert (await memory.get_handle(context.handle.id)).text == context.text
    assert (await memory.get_all(run_id="t1")).total == 1
    receipt = await memory.threads.delete("t1")
    assert (receipt.threads, receipt.messages, receipt.deleted) == (1, 2, 1)
    assert await memory.threads.get("t1") is None


async def test_lists_are_whole_unless_a_page_is_asked_for(memory: Any) -> None:
    made = [(await memory.threads.create("alice")).id for _ in range(3)]
    assert len(set(made)) == 3
    await memory.threads.create("bob", agent_id="a", thread_id="t9")
    assert [t.id for t in (await memory.threads.list(user_id="alice")).results] == made
    assert [t.id for t in (await memory.threads.list(agent_id="a")).results] == ["t9"]
    assert (await memory.threads.list()).total == 4
    page = await memory.threads.list(limit=2)
    assert len((await memory.threads.list(cursor=page.next_cursor)).results) == 2
    sent = [f"m{n}" for n in range(5)]
    await memory.threads.add_messages("t9", sent)
    everything = await memory.threads.messages("t9")
    assert [m.content for m in everything.results] == sent
    newest = await memory.threads.messages("t9", newest_first=True, limit=2)
    assert [m.content for m in newest.results] == ["m4", "m3"] and newest.total == 5
    gone = everything.results[0]
    assert (await memory.threads.delete_message("t9", gone.id)).messages == 1
    assert (await memory.threads.messages("t9")).total == 4


async def test_deleting_can_keep_what_was_remembered(memory: Any) -> None:
    await memory.threads.create("alice", thread_id="t1")
    await memory.threads.add_messages("t1", "tea is fine", infer=False)
    await memory.threads.delete("t1", keep_memories=True)
    assert (await memory.get_all(user_id="alice")).total == 1
    receipt = await memory.delete_all(user_id="alice")
    assert (receipt.deleted, receipt.threads) == (1, 0)


async def test_refusals_are_typed(memory: Any) -> None:
    await memory.threads.create("alice", thread_id="t1")
    await memory.threads.add_messages("t1", "tea", idempotency_key="k")
    for attempt, error in (
        (memory.threads.create("bob", thread_id="t1"), ConflictError),
        (memory.threads.add_messages("t1", "rum", idempotency_key="k"), ConflictError),
        (memory.threads.add_messages("t1", "tea", idempotency_key="ü"), InvalidArgumentError),
        (memory.threads.add_messages("t1", "tea", infer=True), UnsupportedError),
        (memory.threads.add_messages("t2", "tea"), NotFoundError),
        (memory.threads.get_context("t2"), NotFoundError),
        (memory.threads.messages("t2"), NotFoundError),
        (memory.threads.create("*"), InvalidArgumentError),
        (memory.threads.create("alice", thread_id="a/b"), InvalidArgumentError),
    ):
        with pytest.raises(error):
            await attempt


def test_both_kinds_have_the_same_methods() -> None:
    names = [name for name in vars(Threads) if not name.startswith("_")]
    assert names == [name for name in vars(AsyncThreads) if not name.startswith("_")]
    for name in names:
        ours, theirs = (inspect.signature(getattr(each, name)) for each in (Threads, AsyncThreads))
        assert ours == theirs, name
        assert inspect.iscoroutinefunction(getattr(AsyncThreads, name))
        assert inspect.getdoc(getattr(Threads, name))
    assert inferscale.Memory.threads.fget


def test_a_summary_is_read(handle_body: dict[str, Any]) -> None:
    summary = {"state": "done", "text": "Likes tea.", "messages": 9, "updated_at": NOW, "new": 1}
    body = {**handle_body, "thread_id": "t1", "messages": [], "summary": summary}
    transport = httpx.MockTransport(lambda request: httpx.Response(200, json=body))
    with Memory(BASE_URL, http_client=httpx.Client(transport=transport)) as memory:
        found = memory.threads.get_context("t1").summary
    assert found is not None
    assert (found.text, found.messages, found["state"]) == ("Likes tea.", 9, "done")
