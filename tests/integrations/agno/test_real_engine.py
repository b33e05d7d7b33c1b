"""Agno on a real vLLM: two turns of a conversation, in each mode."""

from typing import Any

import openai
import pytest

pytest.importorskip("agno", reason="agno is not installed: integrations/run_tests.sh")

from agno.agent import Agent

from inferscale import AsyncOpenAI, Memory, OpenAI
from inferscale_agno import InferScaleModel

pytestmark = [pytest.mark.engine, pytest.mark.timeout(600)]


async def answered(url: str, memory: Memory, user: str, mode: str, text: str) -> tuple[str, str]:
    """The answer to one turn, called in one of four modes, and the id of its report."""
    ids: list[str] = []

    def note(response: Any) -> None:
        ids.append(response.headers["x-inferscale-request-id"])

    async def anote(response: Any) -> None:
        note(response)

    http = openai.DefaultHttpxClient(event_hooks={"response": [note]})
    ahttp = openai.DefaultAsyncHttpxClient(event_hooks={"response": [anote]})
    with OpenAI(base_url=url, http_client=http) as client:
        async with AsyncOpenAI(base_url=url, http_client=ahttp) as async_client:
            model = InferScaleModel(
                client=client,
                async_client=async_client,
                memory_client=memory,
                temperature=0,
                max_tokens=24,
            )
            said = await _said(Agent(model=model, telemetry=False), user, mode, text)
    return said, ids[-1]


async def _said(agent: Agent, user: str, mode: str, text: str) -> str:
    if mode == "run":
        return str(agent.run(text, user_id=user).content)
    if mode == "arun":
        return str((await agent.arun(text, user_id=user)).content)
    if mode == "stream":
        events = list(agent.run(text, user_id=user, stream=True))
    else:
        events = [event async for event in agent.arun(text, user_id=user, stream=True)]
    return "".join(str(event.content) for event in events)


@pytest.mark.parametrize("mode", ["run", "arun", "stream", "astream"])
async def test_the_second_turn_is_answered_from_injected_memory(
    real: Any, two_turns: Any, mode: str
) -> None:
    async def answer(memory: Memory, text: str, user: str) -> tuple[str, str]:
        return await answered(real.url, memory, user, mode, text)

    await two_turns(answer)
