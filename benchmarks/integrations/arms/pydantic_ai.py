"""Pydantic AI: an agent's run."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from benchmarks.integrations.arms import Arms, Call
from pydantic_ai import Agent
from pydantic_ai.settings import ModelSettings

from inferscale import AsyncMemory, AsyncOpenAI
from inferscale_pydantic_ai import InferScaleMemory, InferScaleModel


@asynccontextmanager
async def arms(url: str, user: str) -> AsyncIterator[Arms]:
    """See `benchmarks.integrations.arms`."""
    scope = {"user_id": user}
    async with AsyncOpenAI(base_url=url) as client, AsyncMemory(url) as memory:
        model = InferScaleModel(openai_client=client)

        def asking(*capabilities: InferScaleMemory, **settings: object) -> Call:
            agent = Agent(
                model, capabilities=capabilities, model_settings=ModelSettings(**settings)
            )
            return agent.run

        yield Arms(
            by_hand=asking(extra_body={"memory": scope}),
            attached=asking(InferScaleMemory(scope, client=memory, remember="nothing")),
            remembered=asking(InferScaleMemory(scope, client=memory)),
        )
