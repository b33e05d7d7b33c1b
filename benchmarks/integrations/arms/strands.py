"""Strands Agents: an agent of its own for each question, as each thread has one."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from benchmarks.integrations.arms import Arms, Call
from strands import Agent

from inferscale import AsyncMemory, AsyncOpenAI
from inferscale_strands import InferScaleModel, InferScalePlugin


@asynccontextmanager
async def arms(url: str, user: str) -> AsyncIterator[Arms]:
    """See `benchmarks.integrations.arms`."""
    scope = {"user_id": user}
    async with AsyncOpenAI(base_url=url) as client, AsyncMemory(url) as memory:
        plain = InferScaleModel(client, params={"extra_body": {"memory": scope}})
        ours = InferScaleModel(client)

        def asking(make: Callable[[], Agent]) -> Call:
            async def ask(text: str) -> object:
                return await make().invoke_async(text)

            return ask

        def agent(*, remember: str) -> Agent:
            plugin = InferScalePlugin(scope, async_client=memory, remember=remember)
            return Agent(ours, plugins=[plugin], callback_handler=None)

        yield Arms(
            by_hand=asking(lambda: Agent(plain, callback_handler=None)),
            attached=asking(lambda: agent(remember="nothing")),
            remembered=asking(lambda: agent(remember="user")),
        )
