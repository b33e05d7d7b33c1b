"""Agent Framework on a real vLLM: two turns of a conversation, in each mode."""

from typing import Any

import openai
import pytest

pytest.importorskip(
    "agent_framework", reason="agent-framework is not installed: integrations/run_tests.sh"
)

from agent_framework import Agent

from inferscale import AsyncOpenAI, Memory
from inferscale_agent_framework import InferScaleChatClient, InferScaleProvider

pytestmark = [pytest.mark.engine, pytest.mark.timeout(600)]

ASKED = "What is my cat called?"
OPTIONS: dict[str, Any] = {"temperature": 0, "max_tokens": 24}


async def answered(url: str, provider: InferScaleProvider, mode: str, text: str) -> tuple[str, str]:
    """The answer to one turn, called in one of two modes, and the id of its report."""
    ids: list[str] = []

    async def note(response: Any) -> None:
        ids.append(response.headers["x-inferscale-request-id"])

    http = openai.DefaultAsyncHttpxClient(event_hooks={"response": [note]})
    async with AsyncOpenAI(base_url=url, http_client=http) as client:
        agent = Agent(InferScaleChatClient(async_client=client), context_providers=[provider])
        if mode == "run":
            return (await agent.run(text, options=OPTIONS)).text, ids[-1]
        stream = agent.run(text, stream=True, options=OPTIONS)
        said = "".join([update.text async for update in stream])
    return said, ids[-1]


@pytest.mark.parametrize("mode", ["run", "stream"])
async def test_the_second_turn_is_answered_from_injected_memory(
    real: Any, real_memory: Memory, facts: list[str], user: str, mode: str
) -> None:
    real_memory.add([{"role": "user", "content": fact} for fact in facts], user_id=user)
    mine = InferScaleProvider({"user_id": user}, client=real_memory)
    others = InferScaleProvider({"user_id": f"{user}-other"}, client=real_memory)
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
