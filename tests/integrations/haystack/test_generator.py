"""Haystack with memory, against the real application: generator, pipeline, agent, streaming."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from typing import Annotated, Any

import pytest

pytest.importorskip("haystack", reason="haystack-ai is not installed: integrations/run_tests.sh")

from haystack import Pipeline
from haystack.components.agents import Agent
from haystack.components.builders import ChatPromptBuilder
from haystack.dataclasses import ChatMessage, ImageContent, StreamingChunk
from haystack.tools import tool

from inferscale import InvalidArgumentError, InvalidRequestError, Memory
from inferscale_haystack import InferScaleChatGenerator

FACT = "My sister Maya keeps bees in Oslo"
QUESTION = "what does my sister Maya keep"
PIXEL = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGNgYGD4DwABBAEAX+XDSwAAAABJRU5E"
    "rkJggg=="
)


@tool
def bees(count: Annotated[int, "how many"]) -> str:
    """Counts bees."""
    return f"{count} bees"


@pytest.fixture
async def make(sidecar: Any) -> AsyncIterator[Any]:
    """`make(…)` is a generator with these arguments."""
    made = []

    def generator(*arguments: Any, **options: Any) -> InferScaleChatGenerator:
        made.append(InferScaleChatGenerator(*arguments, api_base_url=sidecar.url, **options))
        return made[-1]

    yield generator
    for one in made:
        one.close()
        await one.close_async()


@pytest.fixture(params=["run", "run_async", "stream", "stream_async"])
def ask(request: pytest.FixtureRequest) -> Any:
    """`ask(component, messages, …)` runs a generator or an agent, called in one of four modes."""
    streamed: list[str] = []

    async def collect(chunk: StreamingChunk) -> None:
        streamed.append(chunk.content)

    async def run(component: Any, messages: Any, **more: Any) -> str:
        streamed.clear()
        if request.param == "run":
            found = await asyncio.to_thread(component.run, messages, **more)
        elif request.param == "run_async":
            found = await component.run_async(messages, **more)
        elif request.param == "stream":
            more["streaming_callback"] = lambda chunk: streamed.append(chunk.content)
            found = await asyncio.to_thread(component.run, messages, **more)
        else:
            found = await component.run_async(messages, streaming_callback=collect, **more)
        text = found["replies"][0].text if "replies" in found else found["last_message"].text
        if streamed:
            assert text in "".join(streamed)
        return str(text)

    return run


def whose(user: str, **more: Any) -> dict[str, Any]:
    return {"generation_kwargs": {"memory": {"user_id": user, **more}}}


def texts(memory: Memory, user: str) -> list[str]:
    return sorted(record.memory for record in memory.get_all(user_id=user).results)


async def test_the_second_conversation_knows_what_the_first_one_said(ask, make, user):
    generator = make()
    for text, is_known in ((FACT, False), (QUESTION, True)):
        answer = await ask(generator, [ChatMessage.from_user(text)], **whose(user))
        assert (FACT in answer) == is_known


async def test_two_users_of_one_component_at_once_never_mix(ask, make, memory, user):
    generator = make(remember="nothing")
    for n in range(4):
        memory.add(f"My sister is number {n}", user_id=f"{user}-{n}")
    answers = await asyncio.gather(
        *(ask(generator, "my sister", **whose(f"{user}-{n}")) for n in range(4))
    )
    assert [answer.count("number") for answer in answers] == [1] * 4
    assert all(f"number {n}" in answer for n, answer in enumerate(answers))


async def test_every_call_of_an_agents_run_carries_the_same_memory(
    ask, make, memory, sidecar, user
):
    memory.add(FACT, user_id=user)
    agent = Agent(chat_generator=make(), tools=[bees], system_prompt="Be brief.")
    messages = [ChatMessage.from_user('call bees {"count": 3}')]
    assert FACT in await ask(agent, messages, **whose(user, k=3))
    first, second = sidecar.sent()
    assert first["messages"][0] == second["messages"][0]
    assert second["messages"][-1]["content"] == "3 bees"
    assert texts(memory, user) == sorted([FACT, 'call bees {"count": 3}'])


async def test_memory_is_not_in_an_agents_state(make, memory, user):
    memory.add("I keep goats in Bergen", user_id=user)
    agent = Agent(chat_generator=make({"user_id": user}), tools=[bees])
    found = await agent.run_async([ChatMessage.from_user('call bees {"count": 3}')])
    *kept, last = found["messages"]
    assert [message.role for message in kept] == ["user", "assistant", "tool"]
    assert "Bergen" in last.text
    assert "Bergen" not in json.dumps([message.to_dict() for message in kept])


async def test_only_the_last_turn_is_remembered(ask, make, memory, user):
    history = [
        ChatMessage.from_system("Be brief."),
        ChatMessage.from_user("It rains"),
        ChatMessage.from_assistant("Yes"),
        ChatMessage.from_user(FACT),
        ChatMessage.from_user(content_parts=["Look", ImageContent(PIXEL, "image/png")]),
    ]
    await ask(make({"user_id": user}), history)
    assert texts(memory, user) == sorted([FACT, "Look"])


async def test_in_pipelines(make, memory, user):
    memory.add(FACT, user_id=user)
    pipeline = Pipeline()
    template = [ChatMessage.from_user("what does my sister {{name}} keep")]
    pipeline.add_component("prompt", ChatPromptBuilder(template, required_variables=["name"]))
    pipeline.add_component("llm", make(remember="nothing"))
    pipeline.connect("prompt.prompt", "llm.messages")
    data = {"prompt": {"name": "Maya"}, "llm": whose(user)}
    blocking, awaiting = pipeline.run(data), await pipeline.run_async(data)
    assert FACT in blocking["llm"]["replies"][0].text
    assert FACT in awaiting["llm"]["replies"][0].text


async def test_a_handle(ask, make, memory, user):
    memory.add(FACT, user_id=user)
    handle = memory.recall(QUESTION, user_id=user)
    generator = make(handle.id, remember="nothing")
    assert FACT in await ask(generator, QUESTION)
    with pytest.raises(InvalidArgumentError, match="user_id"):
        await ask(make(handle.id), QUESTION)


async def test_the_run_wins_over_the_component_and_may_have_no_memory(
    ask, make, memory, sidecar, user
):
    memory.add(FACT, user_id=user)
    kwargs = {"extra_body": {"top_k": 5}, "temperature": 0.5}
    generator = make({"user_id": f"{user}-2"}, remember="turn", generation_kwargs=kwargs)
    answer = await ask(generator, QUESTION, **whose(user, k=1))
    (sent,) = sidecar.sent()
    assert (sent["top_k"], sent["temperature"]) == (5, 0.5)
    assert FACT in answer
    assert kwargs == {"extra_body": {"top_k": 5}, "temperature": 0.5}
    assert texts(memory, user) == sorted([FACT, QUESTION, answer])
    by_hand = {"extra_body": {"memory": {"user_id": user}}}
    assert FACT in await ask(generator, QUESTION, generation_kwargs=by_hand)
    sidecar.sent()
    await ask(generator, QUESTION, generation_kwargs={"memory": None})
    assert "Memory of earlier" not in json.dumps(sidecar.sent())
    assert texts(memory, f"{user}-2") == []


async def test_a_failed_write_is_logged_or_raised(ask, make, memory, user, caplog):
    too_long = "bees " * 20_000
    with caplog.at_level(logging.ERROR, logger="inferscale_shared"):
        assert "I was told" in await ask(make({"user_id": user}), too_long)
    assert "not remembered" in caplog.text
    with pytest.raises(InvalidRequestError):
        await ask(make({"user_id": user}, raise_write_errors=True), too_long)
    assert texts(memory, user) == []


async def test_a_run_for_nobody_fails_before_the_model_is_asked(ask, make, sidecar):
    with pytest.raises(InvalidArgumentError, match="whose memory"):
        await ask(make(), QUESTION)
    assert sidecar.sent() == []


async def test_a_component_is_serialized_without_connections(make, memory, user):
    generator = make({"user_id": user}, memory_metadata={"from": "chat"}, remember="turn")
    generator.run(FACT)
    pipeline = Pipeline()
    pipeline.add_component("llm", generator)
    loaded = Pipeline.loads(pipeline.dumps(), allowed_modules=["inferscale_haystack.*"])
    again = loaded.get_component("llm")
    answer = again.run(QUESTION)["replies"][0].text
    again.close()
    assert FACT in answer
    assert again.to_dict() == generator.to_dict()
    assert answer in texts(memory, user)
    records = memory.get_all(user_id=user).results
    assert [record.metadata for record in records] == [{"from": "chat"}] * len(records)


@pytest.mark.parametrize(
    "arguments",
    [
        {"memory": "alice"},
        {"memory": {"k": 3}},
        {"remember": "all"},
        {"generation_kwargs": {"memory": {"user_id": "alice"}}},
    ],
)
def test_arguments_are_checked_at_once(arguments):
    with pytest.raises(InvalidArgumentError):
        InferScaleChatGenerator(**arguments)
