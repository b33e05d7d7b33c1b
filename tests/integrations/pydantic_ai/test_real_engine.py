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

ASKED = "What is my cat called?"
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
    real: Any, real_memory: Memory, facts: list[str], user: str, mode: str
) -> None:
    real_memory.add([{"role": "user", "content": fact} for fact in facts], user_id=user)
    mine = InferScaleMemory({"user_id": user}, client=real_memory)
    others = InferScaleMemory({"user_id": f"{user}-other"}, client=real_memory)
    await answered(real.url, mine, mode, "My cat is called Biscuit")
    real_memory.wait_until_ready(180, builds=True)
    stranger, _ = await answered(real.url, others, mode, ASKED)
    answer, report_id = await answered(real.url, mine, mode, ASKED)
    assert "Biscuit" in answer
    assert "Biscuit" not in stranger
    report = real_memory.report(report_id)
    assert report.items == len(facts) + 1
    assert report.mode == "injected", report
    assert report.tokens is not None
    assert report.tokens.injected > report.tokens.prefilled
