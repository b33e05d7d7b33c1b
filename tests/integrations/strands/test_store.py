"""Memories as a store of Strands' memory manager: found and written as text, in one scope."""

import json

import pytest

pytest.importorskip("strands", reason="Strands is not installed: integrations/run_tests.sh")

from strands import Agent
from strands.memory import MemoryManager

from inferscale import InvalidArgumentError
from inferscale_strands import InferScaleMemoryStore, InferScaleModel

FACT = "My sister Maya keeps bees in Oslo"


async def test_a_model_searches_and_writes_through_the_manager(memory, sidecar, user):
    store = InferScaleMemoryStore({"user_id": user}, client=memory)
    manager = MemoryManager([store], add_tool_config=True, injection=False)
    model = InferScaleModel(client_args={"base_url": sidecar.url})
    agent = Agent(model, memory_manager=manager, callback_handler=None)
    await agent.invoke_async(f"call add_memory {json.dumps({'entries': [FACT]})}")
    assert [record.memory for record in memory.get_all(user_id=user).results] == [FACT]
    await agent.invoke_async(f"call search_memory {json.dumps({'query': 'what does Maya keep'})}")
    found = sidecar.sent()[-1]["messages"][-1]
    assert found["role"] == "tool"
    assert FACT in str(found["content"])


async def test_the_store_searches_its_scope_alone(memory, user):
    store = InferScaleMemoryStore({"user_id": user}, client=memory, max_search_results=2)
    await store.add_messages(
        [{"role": "user", "content": [{"text": f"I have {n} hens"}]} for n in range(3)]
    )
    await store.add("We have hens", {"from": "a test"})
    memory.add("I have 9 hens", user_id=f"{user}-other")
    assert len(await store.search("hens")) == 2
    found = await store.search("hens", {"max_search_results": 10})
    assert sorted(entry.content for entry in found) == [
        "I have 0 hens",
        "I have 1 hens",
        "I have 2 hens",
        "We have hens",
    ]
    assert [e.metadata["from"] for e in found if e.content == "We have hens"] == ["a test"]
    assert all(isinstance(entry.metadata["score"], float) for entry in found)


def test_the_store_needs_a_scope(memory):
    with pytest.raises(InvalidArgumentError, match="user_id"):
        InferScaleMemoryStore({}, client=memory)
