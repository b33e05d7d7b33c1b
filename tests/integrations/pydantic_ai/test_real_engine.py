"""Pydantic AI on a real vLLM: two turns of a conversation, in each mode."""

import asyncio
from typing import Any

import openai
import pytest

pytest.importorskip("pydantic_ai", reason="pydantic-ai is not installed: integrations/run_tests.sh")

from pydantic_ai import Agent

from inferscale import AsyncOpenAI, Memory
from inferscale_pydantic_ai import InferScaleMemory, InferScaleModel

pytestmark = [pytest.mark.engine, pytest.mark.timeout(600)]

SETTINGS = {"temperature": 0, "max_tokens": 24}


async def answered(url: str, capability: InferScaleMemory, mode: str, text: str) -> tuple[str, str]:
    """The answer to one turn, called in one of three modes, and the id of its report."""
    ids: list[str] = []

    async def note(response: Any) -> None:
        ids.append(response.headers["x-inferscale-request-id"])

    http = openai.DefaultAsyncHttpxClient(event_hooks={"response": [note]})
    client = AsyncOpenAI(base_url=url, http_client=http)
    agent = Agent(InferScaleModel(openai_client=client), capabilities=[capability])
    if mode == "run_sync":
        result = await asyncio.to_thread(agent.run_sync, text, model_settings=SETTINGS)
        return result.output, ids[-1]
    async with client:
        if mode == "run":
            said = (await agent.run(text, model_settings=SETTINGS)).output
        else:
            async with agent.run_stream(text, model_settings=SETTINGS) as stream:
                said = [part async for part in stream.stream_text()][-1]
    return said, ids[-1]


@pytest.mark.parametrize("mode", ["run", "run_sync", "run_stream"])
async def test_the_second_turn_is_answered_from_injected_memory(
    real: Any, two_turns: Any, mode: str
) -> None:
    async def answer(memory: Memory, text: str, user: str) -> tuple[str, str]:
        capability = InferScaleMemory({"user_id": user}, client=memory)
        return await answered(real.url, capability, mode, text)

    await two_turns(answer)
