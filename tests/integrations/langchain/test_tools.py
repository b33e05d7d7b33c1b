"""Retriever and tools: what they give, whose memory they touch, and in agents."""

import json
from typing import Any

import pytest

pytest.importorskip("langchain", reason="LangChain is not installed: integrations/run_tests.sh")

from langchain.agents import create_agent
from langchain_core.messages import HumanMessage, ToolMessage

from inferscale import AsyncMemory, InvalidArgumentError, Memory
from inferscale_langchain import ChatInferScale, InferScaleRetriever, create_memory_tools

FACT = "My sister Maya keeps bees in Oslo"


@pytest.fixture
def known(memory: Memory, user: str) -> str:
    memory.add(FACT, user_id=user, metadata={"topic": "family"})
    return user


@pytest.fixture(params=["sync", "async"])
def run_tool(request: pytest.FixtureRequest, sidecar: Any, memory: Memory) -> Any:
    """`run_tool(name, arguments, context)` lets an agent call a tool; gives the tool's answer."""

    async def run(name: str, arguments: dict[str, Any], context: Any) -> str:
        agent = create_agent(
            ChatInferScale(base_url=sidecar.url), create_memory_tools(memory, can_write=True)
        )
        given = {"messages": [HumanMessage(f"call {name} {json.dumps(arguments)}")]}
        if request.param == "sync":
            result = agent.invoke(given, context=context)
        else:
            result = await agent.ainvoke(given, context=context)
        (answer,) = [m for m in result["messages"] if isinstance(m, ToolMessage)]
        return str(answer.content)

    return run


async def test_an_agent_searches_the_memory_of_its_runs_user(run_tool, known):
    arguments = {"query": "sister"}
    assert FACT in await run_tool("search_memories", arguments, {"user_id": known})
    assert FACT not in await run_tool("search_memories", arguments, {"user_id": f"{known}-other"})


async def test_the_model_cannot_choose_the_user(run_tool, known):
    asked = {"query": "sister", "user_id": known}
    assert FACT not in await run_tool("search_memories", asked, {"user_id": f"{known}-other"})


async def test_an_agent_remembers_and_forgets(run_tool, memory, user):
    said = await run_tool("add_memory", {"text": "I like goats"}, {"user_id": user})
    (record,) = memory.get_all(user_id=user).results
    assert record.id in said
    await run_tool("delete_memory", {"memory_id": record.id}, {"user_id": user})
    assert memory.get_all(user_id=user).results == []


async def test_a_memory_of_another_user_cannot_be_deleted(run_tool, memory, known):
    (record,) = memory.get_all(user_id=known).results
    context = {"user_id": f"{known}-other"}
    answer = await run_tool("delete_memory", {"memory_id": record.id}, context)
    assert answer == await run_tool("delete_memory", {"memory_id": "unknown"}, context)
    assert memory.get(record.id) is not None


def test_writing_has_to_be_asked_for(memory):
    assert [tool.name for tool in create_memory_tools(memory)] == ["search_memories"]


def test_outside_of_a_run_the_scope_must_be_given(memory):
    (search,) = create_memory_tools(memory)
    with pytest.raises(InvalidArgumentError, match="user_id"):
        search.invoke({"query": "sister"})


async def test_documents(sidecar, memory, known):
    async with AsyncMemory(sidecar.url) as async_memory:
        retriever = InferScaleRetriever(memory=memory, async_memory=async_memory, user_id=known)
        (document,) = retriever.invoke("sister")
        assert await retriever.ainvoke("sister") == [document]
    assert document.page_content == FACT
    assert document.id == memory.get_all(user_id=known).results[0].id
    assert document.metadata["metadata"] == {"topic": "family"}
    assert document.metadata["user_id"] == known
    assert 0 < document.metadata["score"] <= 1
    json.dumps(document.metadata)


def test_retriever_filters_and_threshold(memory, known):
    memory.add("My sister Maya sings", user_id=known)
    family = InferScaleRetriever(memory=memory, user_id=known, filters={"topic": "family"})
    assert [document.page_content for document in family.invoke("sister")] == [FACT]
    assert InferScaleRetriever(memory=memory, user_id=known, threshold=0.99).invoke("bread") == []


def test_a_retriever_needs_a_scope(memory):
    with pytest.raises(ValueError, match="user_id"):
        InferScaleRetriever(memory=memory)
