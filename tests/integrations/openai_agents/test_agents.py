"""The OpenAI Agents SDK with memory, against the real application: run, stream, tools, sessions."""

import asyncio
import json
import logging
import uuid
from collections.abc import AsyncIterator
from typing import Any

import pytest

pytest.importorskip("agents", reason="openai-agents is not installed: integrations/run_tests.sh")

from agents import Agent, RunConfig, Runner, SQLiteSession, function_tool, set_tracing_disabled
from agents.memory import Session

from inferscale import AsyncMemory, AsyncOpenAI, InferScaleError, InvalidArgumentError, Memory
from inferscale_agents import InferScaleModel, RememberingSession

FACT = "My sister Maya keeps bees in Oslo"
QUESTION = "what does my sister Maya keep"

set_tracing_disabled(True)  # it would send everything to OpenAI


@function_tool
def bees(count: int) -> str:
    """Counts bees."""
    return f"{count} bees"


AGENT = Agent(name="helper", instructions="Be brief.", tools=[bees])


@pytest.fixture
async def client(sidecar: Any) -> AsyncIterator[AsyncOpenAI]:
    async with AsyncOpenAI(base_url=sidecar.url) as client:
        yield client


@pytest.fixture
async def async_memory(sidecar: Any) -> AsyncIterator[AsyncMemory]:
    async with AsyncMemory(sidecar.url) as memory:
        yield memory


@pytest.fixture(params=["run", "run_streamed"])
def ask(request: pytest.FixtureRequest, client: AsyncOpenAI) -> Any:
    """`ask(text, memory, …)` runs the agent once and gives its answer."""

    async def run(text: str, memory: Any, **more: Any) -> str:
        model = InferScaleModel(memory, openai_client=client)
        config = RunConfig(model=model)
        if request.param == "run":
            return str((await Runner.run(AGENT, text, run_config=config, **more)).final_output)
        result = Runner.run_streamed(AGENT, text, run_config=config, **more)
        async for _ in result.stream_events():
            pass
        return str(result.final_output)

    return run


async def test_the_second_thread_knows_what_the_first_one_said(ask, async_memory, user):
    scope = {"user_id": user}
    for text, is_known in ((FACT, False), (QUESTION, True)):
        thread = RememberingSession(SQLiteSession(uuid.uuid4().hex), async_memory, **scope)
        assert (FACT in await ask(text, scope, session=thread)) == is_known


async def test_two_users_at_once_never_mix(ask, memory, user):
    for n in range(4):
        memory.add(f"My sister is number {n}", user_id=f"{user}-{n}")
    asked = [ask("which number is my sister", {"user_id": f"{user}-{n}"}) for n in range(4)]
    answers = await asyncio.gather(*asked)
    assert [answer.count("number") for answer in answers] == [1] * 4
    assert all(f"number {n}" in answer for n, answer in enumerate(answers))


async def test_every_call_of_a_turn_with_tools_carries_the_same_memory(ask, memory, sidecar, user):
    memory.add(FACT, user_id=user)
    assert FACT in await ask('call bees {"count": 3}', {"user_id": user, "k": 3})
    first, second = sidecar.sent()
    assert first["messages"][0] == second["messages"][0]
    assert second["messages"][-1]["content"] == "3 bees"


async def test_a_handle(ask, memory, user):
    memory.add(FACT, user_id=user)
    assert FACT in await ask(QUESTION, memory.recall(QUESTION, user_id=user).id)


async def test_memory_is_not_in_the_thread(ask, memory, async_memory, user):
    memory.add("I keep goats in Bergen", user_id=user)
    inner = SQLiteSession(uuid.uuid4().hex)
    thread = RememberingSession(inner, async_memory, user_id=user)
    await ask('call bees {"count": 3}', {"user_id": user}, session=thread)
    items = [item for item in await inner.get_items() if item.get("role") != "assistant"]
    assert items
    assert "Bergen" not in json.dumps(items)


async def test_only_the_users_words_are_remembered(ask, memory, async_memory, user):
    thread = RememberingSession(SQLiteSession(uuid.uuid4().hex), async_memory, user_id=user)
    await ask('call bees {"count": 3}', {"user_id": user}, session=thread)
    records = memory.get_all(user_id=user).results
    assert [record.memory for record in records] == ['call bees {"count": 3}']


async def test_the_session_is_one_and_its_thread_the_inner_ones(async_memory, user):
    inner = SQLiteSession(uuid.uuid4().hex)
    thread = RememberingSession(inner, async_memory, user_id=user)
    assert isinstance(thread, Session)
    await thread.add_items([{"role": "user", "content": "one"}, {"role": "user", "content": "two"}])
    assert await thread.get_items(1) == [{"role": "user", "content": "two"}]
    assert (await thread.pop_item())["content"] == "two"
    assert (await async_memory.get_all(user_id=user)).total == 0
    await thread.add_items([{"role": "assistant", "content": "three"}])
    await thread.clear_session()
    assert await inner.get_items() == []
    (record,) = (await async_memory.get_all(user_id=user)).results
    assert record.memory == "one"


async def test_a_failed_write_is_logged_or_raised(sidecar, user, caplog):
    items = [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "hi"}]
    async with AsyncMemory("http://127.0.0.1:9", max_retries=0) as nowhere:
        thread = RememberingSession(SQLiteSession(user), nowhere, user_id=user)
        with caplog.at_level(logging.ERROR, logger="inferscale_agents"):
            await thread.add_items(items)
        assert "not remembered" in caplog.text
        strict = RememberingSession(
            SQLiteSession(user), nowhere, user_id=user, raise_write_errors=True
        )
        with pytest.raises(InferScaleError):
            await strict.add_items(items)


@pytest.mark.parametrize("memory_argument", ["alice", {"k": 3}])
def test_a_model_needs_a_scope_or_a_handle(memory_argument):
    with pytest.raises(InvalidArgumentError):
        InferScaleModel(memory_argument)


def test_a_session_needs_a_scope(memory: Memory):
    with pytest.raises(InvalidArgumentError, match="user_id"):
        RememberingSession(SQLiteSession("s"))
