"""Pydantic AI with memory, against the real application: run, run_sync, streams, tools, history."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest

pytest.importorskip("pydantic_ai", reason="pydantic-ai is not installed: integrations/run_tests.sh")

from pydantic_ai import Agent, ImageUrl, ModelRetry
from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.messages import ModelMessagesTypeAdapter, ModelRequest, UserPromptPart

from inferscale import AsyncMemory, AsyncOpenAI, InferScaleError, InvalidArgumentError, Memory
from inferscale_pydantic_ai import InferScaleMemory, InferScaleModel

FACT = "My sister Maya keeps bees in Oslo"
QUESTION = "what does my sister Maya keep"


@dataclass
class Caller:
    user_id: str


@pytest.fixture
async def model(sidecar: Any) -> AsyncIterator[InferScaleModel]:
    async with AsyncOpenAI(base_url=sidecar.url) as client:
        yield InferScaleModel(openai_client=client)


@pytest.fixture
def agent(model: InferScaleModel, memory: Memory) -> Agent[Any, str]:
    made = Agent(model, instructions="Be brief.", capabilities=[InferScaleMemory(client=memory)])

    @made.tool_plain
    def bees(count: int) -> str:
        """Counts bees."""
        return f"{count} bees"

    return made


@pytest.fixture(params=["run", "run_stream", "iter"])
def ask(request: pytest.FixtureRequest, agent: Agent[Any, str]) -> Any:
    """`ask(text, user, …)` runs the agent once and gives its result, called in one of the modes."""

    async def run(text: str | None, user: str, **more: Any) -> Any:
        options = {"deps": Caller(user), **more}
        if request.param == "run":
            return await agent.run(text, **options)
        if request.param == "iter":
            async with agent.iter(text, **options) as steps:
                async for _ in steps:
                    pass
            return steps.result
        async with agent.run_stream(text, **options) as stream:
            async for _ in stream.stream_text():
                pass
        return stream

    return run


async def output(result: Any) -> str:
    return str(await result.get_output() if hasattr(result, "get_output") else result.output)


def texts(memory: Memory, user: str) -> list[str]:
    return [record.memory for record in memory.get_all(user_id=user).results]


async def test_the_second_conversation_knows_what_the_first_one_said(ask, user):
    for text, is_known in ((FACT, False), (QUESTION, True)):
        assert (FACT in await output(await ask(text, user))) == is_known


def test_blocking(sidecar: Any, memory: Memory, user: str) -> None:
    model = InferScaleModel(openai_client=AsyncOpenAI(base_url=sidecar.url))
    agent = Agent(model, capabilities=[InferScaleMemory(client=memory)])
    for text, is_known in ((FACT, False), (QUESTION, True)):
        assert (FACT in agent.run_sync(text, deps={"user_id": user}).output) == is_known


async def test_two_users_at_once_never_mix(ask, memory, user):
    for n in range(4):
        memory.add(f"My sister is number {n}", user_id=f"{user}-{n}")
    asked = [ask("which number is my sister", f"{user}-{n}") for n in range(4)]
    answers = [await output(result) for result in await asyncio.gather(*asked)]
    assert [answer.count("number") for answer in answers] == [1] * 4
    assert all(f"number {n}" in answer for n, answer in enumerate(answers))


async def test_every_call_of_a_run_with_tools_carries_the_same_memory(ask, memory, sidecar, user):
    memory.add(FACT, user_id=user)
    assert FACT in await output(await ask('call bees {"count": 3}', user))
    first, second = sidecar.sent()
    assert first["messages"][0] == second["messages"][0]
    assert second["messages"][-1]["content"] == "3 bees"


async def test_only_the_users_words_are_remembered(ask, memory, user):
    await ask('call bees {"count": 3}', user)
    assert texts(memory, user) == ['call bees {"count": 3}']


async def test_memory_is_not_in_the_messages(ask, memory, user):
    memory.add("I keep goats in Bergen", user_id=user)
    result = await ask('call bees {"count": 3}', user)
    kept = [m for m in result.all_messages() if m.kind == "request"]
    assert len(kept) == 2
    saved = json.dumps(ModelMessagesTypeAdapter.dump_python(kept, mode="json"))
    assert "Bergen" not in saved


async def test_a_history_that_ends_with_the_user_is_asked_about(ask, memory, user):
    memory.add(FACT, user_id=user)
    memory.add("Trams are yellow", user_id=user)
    memory.add("It rains", user_id=user)
    history = [ModelRequest(parts=[UserPromptPart(QUESTION)])]
    result = await ask(None, user, message_history=history)
    assert FACT in await output(result)
    assert len(texts(memory, user)) == 3  # the history was remembered when it was said


async def test_a_question_asked_again_after_a_rejected_output_recalls_the_same(
    model, memory, sidecar, user
):
    memory.add(FACT, user_id=user)
    agent = Agent(model, capabilities=[InferScaleMemory({"user_id": user, "k": 1}, client=memory)])
    seen: list[str] = []

    @agent.output_validator
    def once_more(said: str) -> str:
        seen.append(said)
        if len(seen) == 1:
            raise ModelRetry("It rains. Trams are yellow.")
        return said

    memory.add("It rains. Trams are yellow.", user_id=user)
    await agent.run(QUESTION)
    first, second = sidecar.sent()
    assert FACT in first["messages"][0]["content"]
    assert first["messages"][0] == second["messages"][0]


async def test_text_beside_an_image_is_what_the_user_says(ask, memory, user):
    await ask([FACT, ImageUrl("https://example.org/bee.png")], user)
    assert texts(memory, user) == [FACT]


async def test_a_handle(model, memory, user):
    memory.add(FACT, user_id=user)
    handle = memory.recall(QUESTION, user_id=user)
    agent = Agent(model, capabilities=[InferScaleMemory(handle, remember="nothing")])
    assert FACT in (await agent.run(QUESTION)).output
    with pytest.raises(InvalidArgumentError, match="user_id"):
        await Agent(model, capabilities=[InferScaleMemory(handle)]).run(QUESTION)


async def test_a_function_of_the_run_and_an_extra_body_of_its_own(model, memory, sidecar, user):
    memory.add(FACT, user_id=user)
    capability = InferScaleMemory(
        lambda ctx: {"user_id": ctx.deps, "k": 1}, client=memory, remember="turn"
    )
    agent = Agent(model, capabilities=[capability])
    result = await agent.run(
        QUESTION, deps=user, model_settings={"extra_body": {"top_k": 5}, "temperature": 0.5}
    )
    (sent,) = sidecar.sent()
    assert (sent["top_k"], sent["temperature"]) == (5, 0.5)
    assert FACT in sent["messages"][0]["content"]
    assert sorted(texts(memory, user)) == sorted([FACT, QUESTION, result.output])
    await agent.run(QUESTION, deps=user, model_settings={"extra_body": {"memory": None}})
    assert FACT not in json.dumps(sidecar.sent())


async def test_a_client_that_awaits(model, sidecar, memory, user):
    async with AsyncMemory(sidecar.url) as client:
        capability = InferScaleMemory(client=client, metadata={"from": "chat"})
        await Agent(model, capabilities=[capability]).run(FACT, deps={"user_id": user})
    (record,) = memory.get_all(user_id=user).results
    assert (record.memory, record.metadata) == (FACT, {"from": "chat"})


async def test_a_failed_write_is_logged_or_raised(model, user, caplog):
    with Memory("http://127.0.0.1:9", max_retries=0) as nowhere:
        for strict in (False, True):
            capability = InferScaleMemory(client=nowhere, raise_write_errors=strict)
            agent = Agent(model, capabilities=[capability])
            if strict:
                with pytest.raises(InferScaleError):
                    await agent.run(FACT, deps={"user_id": user})
            else:
                with caplog.at_level(logging.ERROR, logger="inferscale_shared"):
                    await agent.run(FACT, deps={"user_id": user})
                assert "not remembered" in caplog.text


@pytest.mark.parametrize("deps", [None, {}, {"user_id": None}, Caller(3)])  # type: ignore[arg-type]
async def test_a_run_for_nobody_fails_before_the_model_is_asked(agent, sidecar, deps):
    with pytest.raises(InvalidArgumentError, match="user_id"):
        await agent.run(QUESTION, deps=deps)
    assert sidecar.sent() == []


@pytest.mark.parametrize(
    "arguments", [{"memory": "alice"}, {"memory": {"k": 3}}, {"remember": "all"}, {"client": 3}]
)
def test_arguments_are_checked_at_once(arguments):
    with pytest.raises(InvalidArgumentError):
        InferScaleMemory(**arguments)


async def test_an_answer_says_what_became_of_the_memory(agent, memory, user):
    memory.add(FACT, user_id=user)
    result = await agent.run(QUESTION, deps={"user_id": user})
    assert result.response.provider_details["memory"]["items"] == 1
    assert FACT not in json.dumps(result.response.provider_details, default=str)


async def test_an_unknown_handle_is_an_error(model):
    agent = Agent(model, capabilities=[InferScaleMemory("mh_none", remember="nothing")])
    with pytest.raises(ModelHTTPError, match="404"):
        await agent.run(QUESTION)
