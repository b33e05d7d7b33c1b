"""Haystack on a real vLLM: two turns of a conversation, in each mode."""

from typing import Any

import pytest

pytest.importorskip("haystack", reason="haystack-ai is not installed: integrations/run_tests.sh")

from haystack.components.agents import Agent
from haystack.dataclasses import ChatMessage, StreamingChunk

from inferscale import Memory
from inferscale_haystack import InferScaleChatGenerator

pytestmark = [pytest.mark.engine, pytest.mark.timeout(600)]

ASKED = "What is my cat called?"


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
    real: Any, real_memory: Memory, facts: list[str], user: str, mode: str
) -> None:
    real_memory.add([{"role": "user", "content": fact} for fact in facts], user_id=user)
    await answered(real.url, user, mode, "My cat is called Biscuit")
    real_memory.wait_until_ready(180, builds=True)
    stranger, _ = await answered(real.url, f"{user}-other", mode, ASKED)
    answer, report_id = await answered(real.url, user, mode, ASKED)
    assert "Biscuit" in answer
    assert "Biscuit" not in stranger
    report = real_memory.report(report_id)
    assert report.items == len(facts) + 1
    assert report.mode == "injected", report
    assert report.tokens is not None
    assert report.tokens.injected > report.tokens.prefilled
