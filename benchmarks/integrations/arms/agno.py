"""Agno: an agent's run."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from agno.agent import Agent
from agno.models.openai.like import OpenAILike
from benchmarks.integrations.arms import Arms, Call

from inferscale import AsyncMemory, AsyncOpenAI
from inferscale_agno import InferScaleModel


@asynccontextmanager
async def arms(url: str, user: str) -> AsyncIterator[Arms]:
    """See `benchmarks.integrations.arms`."""
    scope = {"user_id": user}
    async with AsyncOpenAI(base_url=url) as client, AsyncMemory(url) as memory:

        def asking(model: OpenAILike) -> Call:
            return Agent(model=model, telemetry=False).arun

        def ours(*, remember: str) -> Call:
            options = {"async_client": client, "memory_client": memory, "remember": remember}
            return asking(InferScaleModel(memory=scope, **options))

        yield Arms(
            by_hand=asking(OpenAILike(id="", async_client=client, extra_body={"memory": scope})),
            attached=ours(remember="nothing"),
            remembered=ours(remember="user"),
        )
