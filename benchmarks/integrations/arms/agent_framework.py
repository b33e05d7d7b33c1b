"""Microsoft Agent Framework: an agent's run, each in a session of its own."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from agent_framework import Agent
from benchmarks.integrations.arms import Arms, Call

from inferscale import AsyncMemory, AsyncOpenAI
from inferscale_agent_framework import InferScaleChatClient, InferScaleProvider


@asynccontextmanager
async def arms(url: str, user: str) -> AsyncIterator[Arms]:
    """See `benchmarks.integrations.arms`."""
    scope = {"user_id": user}
    async with AsyncOpenAI(base_url=url) as openai, AsyncMemory(url) as memory:
        client = InferScaleChatClient(async_client=openai)

        def asking(*providers: InferScaleProvider, **options: object) -> Call:
            agent = Agent(client, context_providers=providers, default_options=options)
            return agent.run

        yield Arms(
            by_hand=asking(extra_body={"memory": scope}),
            attached=asking(InferScaleProvider(scope, client=memory, remember="nothing")),
            remembered=asking(InferScaleProvider(scope, client=memory)),
        )
