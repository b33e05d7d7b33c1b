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
    real: Any, two_turns: Any, mode: str
) -> None:
    async def answer(memory: Memory, text: str, user: str) -> tuple[str, str]:
        provider = InferScaleProvider({"user_id": user}, client=memory)
        return await answered(real.url, provider, mode, text)

    await two_turns(answer)
