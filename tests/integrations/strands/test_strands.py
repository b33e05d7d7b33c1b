"""Strands Agents with memory, against the real application: in all modes."""

import asyncio
import json
import logging
from typing import Any

import pytest

pytest.importorskip("strands", reason="Strands is not installed: integrations/run_tests.sh")

from strands import Agent, tool
from strands.agent.conversation_manager import SummarizingConversationManager
from strands.session import FileSessionManager

from inferscale import APIError, InvalidArgumentError, Memory
from inferscale_strands import InferScaleModel, InferScalePlugin

FACT = "My sister Maya keeps bees in Oslo"
QUESTION = "what does my sister Maya keep"


@tool
def bees(count: int) -> str:
    """Counts bees."""
    return f"{count} bees"


@tool(context=True)
def approve(tool_context: Any) -> str:
    """Asks somebody."""
    return f"they said {tool_context.interrupt('approval', reason='why')}"


async def call(agent: Agent, text: Any) -> str:
    return str(await asyncio.to_thread(agent, text))


async def invoke(agent: Agent, text: Any) -> str:
    return str(await agent.invoke_async(text))


async def stream(agent: Agent, text: Any) -> str:
    deltas = []
    async for event in agent.stream_async(text):
        deltas.append(event.get("data", ""))
    assert len([delta for delta in deltas if delta]) > 1
    return "".join(deltas)


@pytest.fixture(params=[call, invoke, stream], ids=lambda way: way.__name__)
def ask(request: pytest.FixtureRequest) -> Any:
    return request.param


def kept(memory: Memory, user: str) -> list[str]:
    return sorted(record.memory for record in memory.get_all(user_id=user).results)


async def test_the_second_thread_knows_what_the_first_one_said(ask, agent_of, user):
    for text, is_known in ((FACT, False), (QUESTION, True)):
        assert (FACT in await ask(agent_of({"user_id": user}), text)) == is_known


async def test_users_at_once_with_one_model_never_mix(ask, agent_of, memory, sidecar, user):
    for n in range(4):
        memory.add(f"My sister is number {n}", user_id=f"{user}-{n}")
    model = InferScaleModel(client_args={"base_url": sidecar.url})
    agents = [agent_of({"user_id": f"{user}-{n}"}, model=model) for n in range(4)]
    answers = await asyncio.gather(*(ask(agent, "which number is my sister") for agent in agents))
    assert [answer.count("number") for answer in answers] == [1] * 4
    assert all(f"number {n}" in answer for n, answer in enumerate(answers))
    assert model.get_config().get("params") is None


async def test_every_call_of_a_turn_with_tools_carries_the_same_memory(
    ask, agent_of, memory, sidecar, user
):
    memory.add(FACT, user_id=user)
    assert FACT in await ask(
        agent_of({"user_id": user, "k": 3}, tools=[bees]), 'call bees {"count": 3}'
    )
    first, second = sidecar.sent()
    assert FACT in first["messages"][0]["content"]
    assert first["messages"][0] == second["messages"][0]
    assert "3 bees" in str(second["messages"][-1]["content"])


async def test_a_handle_is_read_and_not_written(ask, agent_of, memory, user):
    memory.add(FACT, user_id=user)
    handle = memory.recall(QUESTION, user_id=user)
    assert FACT in await ask(agent_of(handle), "what does she keep")
    assert FACT in await ask(agent_of(handle.id), "what does she keep")
    assert kept(memory, user) == [FACT]


async def test_an_agent_without_tools(ask, agent_of, memory, sidecar, user):
    memory.add(FACT, user_id=user)
    assert FACT in await ask(agent_of({"user_id": user}), QUESTION)
    assert "tools" not in sidecar.sent()[0]


async def test_no_memory_text_gets_into_messages_state_or_session(
    ask, agent_of, memory, user, tmp_path
):
    memory.add("I keep goats in Bergen", user_id=user)
    session = FileSessionManager(session_id="s1", storage_dir=str(tmp_path))
    agent = agent_of({"user_id": user}, session_manager=session, tools=[bees])
    assert "Bergen" in await ask(agent, 'call bees {"count": 3}')
    mine = [m for m in agent.messages if "I was told" not in json.dumps(m)]
    assert len(mine) == 3
    assert "Bergen" not in json.dumps([mine, agent.state.get()])
    saved = [p.read_text() for p in tmp_path.rglob("*") if p.is_file()]
    assert len(saved) >= 4
    assert [text for text in saved if "Bergen" in text and "I was told" not in text] == []


async def test_a_summary_of_the_thread_is_made_without_memory(agent_of, memory, sidecar, user):
    memory.add("I keep goats in Bergen", user_id=user)
    manager = SummarizingConversationManager(preserve_recent_messages=1)
    agent = agent_of({"user_id": user}, conversation_manager=manager)
    for n in range(4):
        await invoke(agent, f"message number {n}")
    sidecar.sent()
    manager.reduce_context(agent)
    (summary,) = sidecar.sent()
    assert "summar" in json.dumps(summary).lower()
    assert "Bergen" not in json.dumps([m for m in summary["messages"] if m["role"] == "system"])


@pytest.mark.parametrize(
    ("remember", "count"), [(None, 1), ("user", 1), ("turn", 2), ("nothing", 0)]
)
async def test_what_is_remembered(agent_of, memory, user, remember, count):
    text = 'call bees {"count": 3}'
    await invoke(agent_of({"user_id": user}, plugin={"remember": remember}, tools=[bees]), text)
    texts = kept(memory, user)
    assert len(texts) == count
    assert [t for t in texts if t.startswith("I was told")] == texts[:1] * (count == 2)
    assert text in texts or count == 0


async def test_only_the_turns_own_words_are_remembered_again(agent_of, memory, user):
    agent = agent_of({"user_id": user})
    await invoke(agent, "I keep bees")
    memory.delete_all(user_id=user)
    await invoke(agent, "I keep goats")
    assert kept(memory, user) == ["I keep goats"]


async def test_an_interrupted_turn_is_remembered_once_it_is_answered(agent_of, memory, user):
    agent = agent_of({"user_id": user}, tools=[approve])
    result = await agent.invoke_async("call approve")
    assert result.stop_reason == "interrupt"
    assert kept(memory, user) == []
    answer = {"interruptResponse": {"interruptId": result.interrupts[0].id, "response": "yes"}}
    await agent.invoke_async([answer])
    assert kept(memory, user) == ["call approve"]


async def test_a_failed_turn_is_not_remembered(agent_of, memory, sidecar, user):
    wrong = InferScaleModel(client_args={"base_url": sidecar.url}, model_id="none-such")
    agent = agent_of({"user_id": user}, model=wrong)
    with pytest.raises(Exception, match="no such model"):
        await invoke(agent, "I keep wasps")
    agent.model = InferScaleModel(client_args={"base_url": sidecar.url})
    agent.messages.clear()
    await invoke(agent, "I keep bees")
    assert kept(memory, user) == ["I keep bees"]


async def test_a_failed_write_is_logged_or_raised(agent_of, user, caplog):
    with Memory("http://127.0.0.1:9", max_retries=0) as nowhere:
        agent = agent_of({"user_id": user}, plugin={"client": nowhere})
        with caplog.at_level(logging.ERROR):
            assert "Be brief" in await invoke(agent, "hello")
        assert "not remembered" in caplog.text
        strict = {"client": nowhere, "raise_write_errors": True}
        with pytest.raises(APIError):
            await invoke(agent_of({"user_id": user}, plugin=strict), "hello")


@pytest.mark.parametrize(
    ("named", "remember"), [("alice", None), ({"k": 3}, None), ("mh_1", "user")]
)
def test_the_plugin_needs_a_scope_or_a_handle(memory, named, remember):
    with pytest.raises(InvalidArgumentError):
        InferScalePlugin(named, client=memory, remember=remember)
