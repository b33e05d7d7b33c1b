"""LangChain: an agent's step, awaiting."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from benchmarks.integrations.arms import Arms, Call
from langchain.agents import create_agent

from inferscale import AsyncMemory, Memory
from inferscale_langchain import ChatInferScale, InferScaleMiddleware


@asynccontextmanager
async def arms(url: str, user: str) -> AsyncIterator[Arms]:
    """See `benchmarks.integrations.arms`.

    The middleware recalls in a request of its own, once a turn, so that an interrupted turn goes on
    with what it began with: of all integrations, this one makes two requests.
    """
    scope = {"user_id": user}
    with Memory(url) as blocking:
        async with AsyncMemory(url) as memory:

            def middleware(**options: str) -> InferScaleMiddleware:
                return InferScaleMiddleware(blocking, async_memory=memory, scope=scope, **options)

            def asking(model: ChatInferScale, *middlewares: InferScaleMiddleware) -> Call:
                agent = create_agent(model, middleware=middlewares)
                return lambda text: agent.ainvoke({"messages": [("user", text)]})

            yield Arms(
                by_hand=asking(ChatInferScale(base_url=url, memory=scope)),
                attached=asking(ChatInferScale(base_url=url), middleware(remember="nothing")),
                remembered=asking(ChatInferScale(base_url=url), middleware()),
            )
