"""Strands Agents on a real vLLM: a second thread is answered from injected memory, in each mode."""

import asyncio
from typing import Any

import pytest

pytest.importorskip("strands", reason="Strands is not installed: integrations/run_tests.sh")

import httpx
from strands import Agent

from inferscale import Memory
from inferscale_strands import InferScaleModel, InferScalePlugin

pytestmark = [pytest.mark.engine, pytest.mark.timeout(600)]


@pytest.mark.parametrize("mode", ["call", "invoke_async", "stream_async"])
async def test_the_second_turn_is_answered_from_injected_memory(
    real: Any, two_turns: Any, mode: str
) -> None:
    async def answer(memory: Memory, text: str, user: str) -> tuple[str, str]:
        reports: list[str] = []

        async def seen(response: httpx.Response) -> None:
            reports.append(response.headers["x-inferscale-request-id"])

        client = httpx.AsyncClient(event_hooks={"response": [seen]}, timeout=120)
        agent = Agent(
            model=InferScaleModel(
                client_args={"base_url": real.url, "http_client": client},
                params={"temperature": 0, "max_tokens": 128, "stop": ["."]},
            ),
            plugins=[InferScalePlugin({"user_id": user, "k": 10}, client=memory)],
            callback_handler=None,
        )
        if mode == "call":
            said = str(await asyncio.to_thread(agent, text))
        elif mode == "invoke_async":
            said = str(await agent.invoke_async(text))
        else:
            said = "".join([event.get("data", "") async for event in agent.stream_async(text)])
        (report,) = reports
        return said, report

    await two_turns(answer)
