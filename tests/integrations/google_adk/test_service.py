"""ADK's memory service: text that is found and written in the scope of an app's user."""

import json

import pytest

pytest.importorskip("google.adk", reason="ADK is not installed: integrations/run_tests.sh")

from google.adk.memory.memory_entry import MemoryEntry
from google.adk.tools import load_memory
from google.genai import types

from inferscale import NotFoundError
from inferscale_adk import InferScaleMemoryService

FACT = "My sister Maya keeps bees in Oslo"


@pytest.fixture
def service(memory):
    return InferScaleMemoryService(client=memory)


def entry(text: str, **metadata: str) -> MemoryEntry:
    content = types.Content(role="user", parts=[types.Part(text=text)])
    return MemoryEntry(content=content, custom_metadata=metadata)


async def found(service, user: str, query: str = "bees", app: str = "app") -> list[str]:
    answer = await service.search_memory(app_name=app, user_id=user, query=query)
    return sorted(found.content.parts[0].text for found in answer.memories)


async def test_a_model_finds_memories_with_adks_own_tool(app_of, ask, memory, sidecar, user):
    memory.add(FACT, user_id=user, app_id="app")
    runner = app_of(tools=[load_memory], plugin={"remember": "nothing"})
    query = json.dumps({"query": "what does Maya keep"})
    await ask(runner, f"call load_memory {query}", user)
    result = sidecar.sent()[-1]["messages"][-1]
    assert result["role"] == "tool"
    assert FACT in str(result["content"])


async def test_a_session_is_written_once(app_of, ask, service, memory, user):
    runner = app_of()
    await ask(runner, "I keep bees", user)
    await ask(runner, "I keep goats", user)
    session = await runner.session_service.get_session(
        app_name="app", user_id=user, session_id="s1"
    )
    await service.add_session_to_memory(session)
    await service.add_session_to_memory(session)
    assert await found(service, user) == ["I keep bees", "I keep goats"]
    memory.delete_all(user_id=user)
    await service.add_session_to_memory(session)
    assert await found(service, user) == []


async def test_a_session_without_the_plugin(app_of, ask, service, user):
    runner = app_of(plugin={"remember": "nothing"})
    await ask(runner, "I keep bees", user)
    session = await runner.session_service.get_session(
        app_name="app", user_id=user, session_id="s1"
    )
    await service.add_session_to_memory(session)
    assert await found(service, user) == ["I keep bees"]


async def test_memories_are_a_users_in_an_app(service, memory, user):
    who = {"app_name": "app", "user_id": user}
    await service.add_memory(**who, memories=[entry(FACT, source="test")])
    assert await found(service, user) == [FACT]
    assert await found(service, f"{user}-other") == []
    assert await found(service, user, app="other") == []
    shared = InferScaleMemoryService(client=memory, across_apps=True)
    assert await found(shared, user, app="other") == [FACT]
    (one,) = (await service.search_memory(**who, query="bees")).memories
    assert one.custom_metadata["source"] == "test"
    assert one.timestamp


async def test_only_ones_own_memories_can_be_deleted(service, user):
    who = {"app_name": "app", "user_id": user}
    await service.add_memory(**who, memories=[entry(FACT)])
    (one,) = (await service.search_memory(**who, query="bees")).memories
    for stranger in ({**who, "user_id": f"{user}-other"}, {**who, "app_name": "other"}):
        with pytest.raises(NotFoundError):
            await service.delete_memory(**stranger, memory_id=one.id)
    assert await found(service, user) == [FACT]
    await service.delete_memory(**who, memory_id=one.id)
    assert await found(service, user) == []
    with pytest.raises(NotFoundError):
        await service.delete_memory(**who, memory_id=one.id)
