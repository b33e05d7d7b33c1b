"""Agent Framework with memory, against the real application: run, stream, tools, sessions."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from typing import Any

import pytest

pytest.importorskip(
    "agent_framework", reason="agent-framework is not installed: integrations/run_tests.sh"
)

from agent_framework import Agent, AgentSession, Content, Message, tool
from agent_framework.exceptions import ChatClientException
from agent_framework.openai import OpenAIChatCompletionClient

from inferscale import AsyncMemory, AsyncOpenAI, InferScaleError, InvalidArgumentError, Memory
from inferscale_agent_framework import InferScaleChatClient, InferScaleProvider

FACT = "My sister Maya keeps bees in Oslo"
QUESTION = "what does my sister Maya keep"


@tool(approval_mode="never_require")
def bees(count: int) -> str:
    """Counts bees."""
    return f"{count} bees"


@tool(approval_mode="always_require")
def honey(count: int) -> str:
    """Orders honey."""
    return f"{count} jars"


@pytest.fixture
async def client(sidecar: Any) -> AsyncIterator[InferScaleChatClient]:
    async with AsyncOpenAI(base_url=sidecar.url) as openai:
        yield InferScaleChatClient(async_client=openai)


@pytest.fixture
def make(client: InferScaleChatClient, memory: Memory) -> Any:
    """`make(memory, …)` is an agent whose provider gets these arguments."""

    def agent(*memory_argument: Any, **options: Any) -> Agent:
        provider = InferScaleProvider(*memory_argument, **{"client": memory, **options})
        tools = [bees, honey]
        return Agent(client, instructions="Be brief.", tools=tools, context_providers=[provider])

    return agent


@pytest.fixture(params=["run", "stream"])
def ask(request: pytest.FixtureRequest) -> Any:
    """`ask(agent, text, session, …)` runs an agent once and gives its response."""

    async def run(agent: Agent, text: Any, session: AgentSession | None, **more: Any) -> Any:
        if request.param == "run":
            return await agent.run(text, session=session, **more)
        stream = agent.run(text, session=session, stream=True, **more)
        async for _ in stream:
            pass
        return await stream.get_final_response()

    return run


def session_of(agent: Agent, **ids: Any) -> AgentSession:
    session = agent.create_session()
    session.state.update(ids)
    return session


def texts(memory: Memory, user: str) -> list[str]:
    return sorted(record.memory for record in memory.get_all(user_id=user).results)


async def test_the_second_session_knows_what_the_first_one_said(ask, make, user):
    agent = make()
    for text, is_known in ((FACT, False), (QUESTION, True)):
        session = session_of(agent, user_id=user)
        assert (FACT in (await ask(agent, text, session)).text) == is_known


async def test_two_users_of_one_agent_at_once_never_mix(ask, make, memory, user):
    agent = make(remember="nothing")
    for n in range(4):
        memory.add(f"My sister is number {n}", user_id=f"{user}-{n}")
    sessions = [session_of(agent, user_id=f"{user}-{n}") for n in range(4)]
    responses = await asyncio.gather(*(ask(agent, "my sister", session) for session in sessions))
    answers = [response.text for response in responses]
    assert [answer.count("number") for answer in answers] == [1] * 4
    assert all(f"number {n}" in answer for n, answer in enumerate(answers))


async def test_every_call_of_a_run_with_tools_carries_the_same_memory(
    ask, make, memory, sidecar, user
):
    memory.add(FACT, user_id=user)
    agent = make({"user_id": user, "k": 3})
    assert FACT in (await ask(agent, 'call bees {"count": 3}', None)).text
    first, second = sidecar.sent()
    assert first["messages"][0] == second["messages"][0]
    assert second["messages"][-1]["content"] == "3 bees"
    assert texts(memory, user) == sorted([FACT, 'call bees {"count": 3}'])


async def test_a_run_that_only_approves_recalls_with_the_turns_words(
    ask, make, memory, sidecar, user
):
    agent = make(remember="nothing")
    session = session_of(agent, user_id=user)
    memory.add(FACT, user_id=user)
    response = await ask(agent, 'call honey {"count": 3}', session)
    (request,) = response.user_input_requests
    allowed = Message("user", [request.to_function_approval_response(True)])
    assert FACT in (await ask(agent, allowed, session)).text
    first, second = sidecar.sent()
    assert first["messages"][0] == second["messages"][0]
    assert second["messages"][-1]["content"] == "3 jars"


async def test_memory_is_in_the_request_and_not_in_the_session(ask, make, memory, user):
    memory.add("I keep goats in Bergen", user_id=user)
    agent = make()
    session = session_of(agent, user_id=user)
    await ask(agent, 'call bees {"count": 3}', session)
    saved = session.to_dict()
    kept = [m for m in saved["state"]["in_memory"]["messages"] if m["role"] != "assistant"]
    assert [m["role"] for m in kept] == ["user", "tool"]
    assert "Bergen" not in json.dumps(kept)
    assert saved["state"]["inferscale"] == {}


async def test_text_beside_an_image_is_what_the_user_says(ask, make, memory, user):
    agent = make({"user_id": user})
    image = Content.from_uri("https://example.org/bee.png", media_type="image/png")
    await ask(agent, [Message("user", [Content.from_text(FACT), image])], None)
    assert texts(memory, user) == [FACT]


async def test_a_handle(ask, make, memory, user):
    memory.add(FACT, user_id=user)
    handle = memory.recall(QUESTION, user_id=user)
    assert FACT in (await ask(make(handle, remember="nothing"), QUESTION, None)).text
    with pytest.raises(InvalidArgumentError, match="user_id"):
        await ask(make(handle), QUESTION, None)


async def test_a_function_of_the_session_and_an_extra_body_of_the_runs_own(
    ask, make, memory, sidecar, user
):
    memory.add(FACT, user_id=user)
    agent = make(lambda session: {"user_id": session.session_id, "k": 1}, remember="turn")
    session = agent.create_session(session_id=user)
    options = {"extra_body": {"top_k": 5}, "temperature": 0.5}
    response = await ask(agent, QUESTION, session, options=options)
    (sent,) = sidecar.sent()
    assert (sent["top_k"], sent["temperature"]) == (5, 0.5)
    assert FACT in sent["messages"][0]["content"]
    assert options == {"extra_body": {"top_k": 5}, "temperature": 0.5}
    assert texts(memory, user) == sorted([FACT, QUESTION, response.text])
    await ask(agent, QUESTION, session, options={"extra_body": {"memory": None}})
    assert "Memory of earlier" not in sidecar.sent()[0]["messages"][0]["content"]


async def test_a_client_that_awaits(ask, make, sidecar, memory, user):
    async with AsyncMemory(sidecar.url) as awaiting:
        agent = make({"user_id": user}, client=awaiting, metadata={"from": "chat"})
        await ask(agent, FACT, None)
    (record,) = memory.get_all(user_id=user).results
    assert (record.memory, record.metadata) == (FACT, {"from": "chat"})


async def test_a_failed_write_is_logged_or_raised(ask, make, user, caplog):
    with Memory("http://127.0.0.1:9", max_retries=0) as nowhere:
        with caplog.at_level(logging.ERROR, logger="inferscale_shared"):
            await ask(make({"user_id": user}, client=nowhere), FACT, None)
        assert "not remembered" in caplog.text
        strict = make({"user_id": user}, client=nowhere, raise_write_errors=True)
        with pytest.raises(InferScaleError):
            await ask(strict, FACT, None)


@pytest.mark.parametrize("ids", [{}, {"user_id": None}, {"user_id": 3}])
async def test_a_run_for_nobody_fails_before_the_model_is_asked(ask, make, sidecar, ids):
    agent = make()
    with pytest.raises(InvalidArgumentError, match="user_id"):
        await ask(agent, QUESTION, session_of(agent, **ids))
    assert sidecar.sent() == []


@pytest.mark.parametrize(
    "arguments", [{"memory": "alice"}, {"memory": {"k": 3}}, {"remember": "all"}, {"client": 3}]
)
def test_arguments_are_checked_at_once(arguments):
    with pytest.raises(InvalidArgumentError):
        InferScaleProvider(**arguments)


async def test_an_answer_says_what_became_of_the_memory(make, memory, user):
    memory.add(FACT, user_id=user)
    response = await make({"user_id": user}).run(QUESTION)
    assert response.additional_properties["memory"]["items"] == 1
    assert FACT not in json.dumps(response.additional_properties)


async def test_the_frameworks_own_client_will_do_and_names_its_model(sidecar, memory, user):
    memory.add(FACT, user_id=user)
    async with AsyncOpenAI(base_url=sidecar.url) as openai:
        theirs = OpenAIChatCompletionClient("scripted", async_client=openai)
        provider = InferScaleProvider({"user_id": user}, client=memory)
        assert FACT in (await Agent(theirs, context_providers=[provider]).run(QUESTION)).text
        ours = InferScaleChatClient("another", async_client=openai)
        with pytest.raises(ChatClientException, match="no such model"):
            await Agent(ours, context_providers=[provider]).run(QUESTION)
