"""Haystack on a real vLLM: two turns of a conversation, in each mode."""

from typing import Any

import pytest

pytest.importorskip("haystack", reason="haystack-ai is not installed: integrations/run_tests.sh")

from haystack.components.agents import Agent
from haystack.dataclasses import ChatMessage, StreamingChunk

from inferscale import Memory
from inferscale_haystack import InferScaleChatGenerator

pytestmark = [pytest.mark.engine, pytest.mark.timeout(600)]


async def answered(url: str, user: str, mode: str, text: str) -> tuple[str, str]:
    """The answer to one turn of an agent, called in one of four modes, and its report's id."""
    ids: list[str] = []
    parts: list[str] = []

    def note(response: Any) -> None:
        ids.append(response.headers["x-inferscale-request-id"])

    async def anote(response: Any) -> None:
        note(response)

    async def collect(chunk: StreamingChunk) -> None:
        parts.append(chunk.content)

    awaits, streams = mode.endswith("async"), mode.startswith("stream")
    generator = InferScaleChatGenerator(
        {"user_id": user},
        api_base_url=url,
        http_client_kwargs={"event_hooks": {"response": [anote if awaits else note]}},
        generation_kwargs={"temperature": 0, "max_tokens": 24},
    )
    agent, messages = Agent(chat_generator=generator), [ChatMessage.from_user(text)]
    if awaits:
        found = await agent.run_async(messages, streaming_callback=collect if streams else None)
        await generator.close_async()
    else:
        callback = (lambda chunk: parts.append(chunk.content)) if streams else None
        found = agent.run(messages, streaming_callback=callback)
        generator.close()
    return ("".join(parts) if streams else str(found["last_message"].text)), ids[-1]


@pytest.mark.parametrize("mode", ["run", "run_async", "stream", "stream_async"])
async def test_the_second_turn_is_answered_from_injected_memory(
    real: Any, two_turns: Any, mode: str
) -> None:
    async def answer(memory: Memory, text: str, user: str) -> tuple[str, str]:
        return await answered(real.url, user, mode, text)

    await two_turns(answer)
