"""LlamaIndex's LLM with memory, against the real application: every way to call it, and agents."""

import asyncio
import json
from typing import Any

import pytest

pytest.importorskip("llama_index", reason="LlamaIndex is not installed: integrations/run_tests.sh")

from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.chat_engine import SimpleChatEngine
from llama_index.core.llms import ChatMessage
from llama_index.core.memory import ChatMemoryBuffer
from openai import NotFoundError

from inferscale import InvalidArgumentError
from inferscale_llama_index import InferScaleLLM

FACT = "My sister Maya keeps bees in Oslo"
QUESTION = "what does my sister Maya keep"


def bees(count: int) -> str:
    """Counts bees."""
    return f"{count} bees"


async def answer(llm: InferScaleLLM, mode: str, text: str, **options: Any) -> str:
    """The answer to a message, called in one of four modes."""
    messages = [ChatMessage(role="system", content="Be brief."), ChatMessage(content=text)]
    if mode == "chat":
        found = await asyncio.to_thread(llm.chat, messages, **options)
    elif mode == "stream_chat":
        found = await asyncio.to_thread(lambda: list(llm.stream_chat(messages, **options))[-1])
    elif mode == "achat":
        found = await llm.achat(messages, **options)
    else:
        found = [chunk async for chunk in await llm.astream_chat(messages, **options)][-1]
    return str(found.message.content)


MODES = ["chat", "stream_chat", "achat", "astream_chat"]


@pytest.fixture
def llm(sidecar: Any, user: str) -> InferScaleLLM:
    return InferScaleLLM({"user_id": user}, api_base=sidecar.url)


@pytest.mark.parametrize("mode", MODES)
async def test_a_message_is_answered_with_memory(llm, memory, user, mode):
    assert FACT not in await answer(llm, mode, QUESTION)
    memory.add(FACT, user_id=user)
    assert FACT in await answer(llm, mode, QUESTION)
    assert FACT not in await answer(llm.with_memory(None), mode, QUESTION)


async def test_a_prompt_is_completed_with_memory(llm, memory, sidecar, user):
    memory.add(FACT, user_id=user)
    assert FACT in llm.complete(QUESTION).text
    assert FACT in list(llm.stream_complete(QUESTION))[-1].text
    assert FACT in (await llm.acomplete(QUESTION)).text
    assert FACT in [part async for part in await llm.astream_complete(QUESTION)][-1].text
    assert [body["messages"][-1]["content"] for body in sidecar.sent()] == [QUESTION] * 4


@pytest.mark.parametrize("mode", MODES)
async def test_two_users_at_once_never_mix(llm, memory, user, mode):
    for n in range(4):
        memory.add(f"My sister is number {n}", user_id=f"{user}-{n}")
    llms = [llm.with_memory({"user_id": f"{user}-{n}"}) for n in range(4)]
    asked = [answer(one, mode, "which number is my sister") for one in llms]
    answers = await asyncio.gather(*asked)
    assert [said.count("number") for said in answers] == [1] * 4
    assert all(f"number {n}" in said for n, said in enumerate(answers))


@pytest.fixture(params=[True, False], ids=["streaming", "whole"])
def agent(request: pytest.FixtureRequest, llm: InferScaleLLM) -> FunctionAgent:
    return FunctionAgent(tools=[bees], llm=llm, system_prompt="Be brief.", streaming=request.param)


async def test_every_call_of_a_turn_with_tools_carries_the_same_memory(
    agent, memory, sidecar, user
):
    memory.add(FACT, user_id=user)
    assert FACT in str(await agent.run('call bees {"count": 3}'))
    first, second = sidecar.sent()
    assert first["messages"][0] == second["messages"][0]
    assert second["messages"][-1]["content"] == "3 bees"


async def test_memory_is_not_in_the_session(agent, memory, user):
    memory.add("I keep goats in Bergen", user_id=user)
    session = ChatMemoryBuffer.from_defaults(token_limit=4000)
    await agent.run('call bees {"count": 3}', memory=session)
    kept = [m.model_dump(mode="json") for m in session.get_all() if m.role != "assistant"]
    assert kept
    assert "Bergen" not in json.dumps(kept)


async def test_what_tools_answer_a_react_agent_is_not_searched_with(llm, memory, sidecar, user):
    for text in (FACT, "It rains", "Trams are yellow"):
        memory.add(text, user_id=user)
    found = llm.with_memory({"user_id": user, "k": 1})
    messages = [
        ChatMessage(content=QUESTION),
        ChatMessage(role="assistant", content="Thought: trams. Action: look"),
        ChatMessage(content="Observation: Trams are yellow"),
    ]
    assert FACT in str(found.chat(messages))


def test_a_chat_engine(llm, memory, user):
    memory.add(FACT, user_id=user)
    engine = SimpleChatEngine.from_defaults(llm=llm)
    assert FACT in str(engine.chat(QUESTION))
    assert FACT in "".join(engine.stream_chat(QUESTION).response_gen)


def test_a_handle_and_the_report(llm, memory, user):
    memory.add(FACT, user_id=user)
    handle = memory.recall(QUESTION, user_id=user)
    for named in (handle, handle.id):
        response = llm.with_memory(named).chat([ChatMessage(content="hello")])
        assert FACT in str(response)
        assert response.raw.memory["items"] == 1
    with pytest.raises(NotFoundError):
        llm.with_memory("mh_none").chat([ChatMessage(content="hello")])


def test_extra_bodies_of_the_model_and_of_a_call_are_merged(sidecar, memory, user):
    memory.add(FACT, user_id=user)
    llm = InferScaleLLM(
        {"user_id": user},
        api_base=sidecar.url,
        temperature=0.5,
        additional_kwargs={"extra_body": {"top_k": 5}, "seed": 3},
    )
    llm.chat([ChatMessage(content=QUESTION)], extra_body={"min_p": 0.1})
    (sent,) = sidecar.sent()
    assert (sent["top_k"], sent["min_p"], sent["seed"], sent["temperature"]) == (5, 0.1, 3, 0.5)
    assert FACT in sent["messages"][0]["content"]
    llm.chat([ChatMessage(content=QUESTION)], extra_body={"memory": None})
    assert FACT not in json.dumps(sidecar.sent())


def test_a_key_of_another_service_is_not_sent(keyed, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-another-service")
    monkeypatch.setenv("OPENAI_API_BASE", "http://127.0.0.1:9")
    mine = InferScaleLLM(api_base=keyed.url, api_key=keyed.mine)
    assert "told" in str(mine.chat([ChatMessage(content="hello")]))
    monkeypatch.setenv("INFERSCALE_API_KEY", keyed.mine)
    monkeypatch.setenv("INFERSCALE_BASE_URL", keyed.url)
    assert "told" in str(InferScaleLLM().chat([ChatMessage(content="hello")]))


def test_written_down_it_holds_no_key_and_no_memory(keyed, user):
    llm = InferScaleLLM({"user_id": user}, api_base=keyed.url, api_key=keyed.mine)
    assert llm.class_name() == "InferScaleLLM"
    assert user not in llm.to_json()


@pytest.mark.parametrize(
    "arguments", [{"memory": "alice"}, {"memory": {"k": 3}}, {"reuse_client": False}]
)
def test_arguments_are_checked_at_once(arguments):
    with pytest.raises(InvalidArgumentError):
        InferScaleLLM(**arguments)
